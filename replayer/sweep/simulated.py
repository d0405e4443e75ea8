"""Settings of a sweep that needs no server: those of the simulator, in modelled time."""

from __future__ import annotations

from collections.abc import Mapping

from rotoscope.replayer.servers import GPUS
from rotoscope.replayer.simulator.constants import TIMINGS, timing_named
from rotoscope.replayer.simulator.fleet import router_named
from rotoscope.replayer.simulator.server import SimulatorOptions
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.errors import UnusableInput

_NUMBERS = ("blocks", "host_blocks", "block_size", "replicas", "max_batch", "seed")
_NAMES = ("router", "profile", "timing", "model")
KNOWN = (*_NUMBERS, *_NAMES)


def simulator_of(settings: Mapping[str, str]) -> SimulatorOptions:
    """Return the simulator with these settings; raise UnusableInput for others, and values that it does not take."""
    own = {name: value for name, value in settings.items() if name != GPUS}
    for name in own:
        if name not in KNOWN:
            raise UnusableInput(f"the simulator has no setting {name!r}: there are {', '.join(KNOWN)}")
    numbers = {name: _number(name, own[name]) for name in _NUMBERS if name in own}
    texts = {name: own[name] for name in ("router", "profile", "model") if name in own}
    timing = {"timing": timing_named(own["timing"])} if "timing" in own else {}
    options = SimulatorOptions(**numbers, **texts, **timing)  # type: ignore[arg-type]
    router_named(options.router)
    profile_named(options.profile, block_size=options.block_size)
    return options


def settings_of(simulator: SimulatorOptions) -> dict[str, str]:
    """Return the settings of a simulator that are not as they are by default, but for its model, which is somebody's name."""
    default = SimulatorOptions()
    texts = {name: str(getattr(simulator, name)) for name in (*_NUMBERS, "router", "profile")}
    changed = {name: text for name, text in texts.items() if text != str(getattr(default, name))}
    if simulator.timing != default.timing:
        changed.update(("timing", name) for name, timing in TIMINGS.items() if timing == simulator.timing)
    return changed


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UnusableInput(f"the setting {name!r} of the simulator is a whole number, not {text!r}")
    return int(text)
