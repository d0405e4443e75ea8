"""The command of a run as it may be told to anybody: what was asked for, without where, by whom and with which key.

Each option has the form that its value can have, so that nothing else passes for one; what has its default is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from typing import Any

from rotoscope.replayer.gates.gate import GATES
from rotoscope.replayer.load.arrivals import POISSON
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.simulator.constants import TIMINGS

NOT_TOLD = frozenset({"url", "model", "tokenizer", "api_key", "folder", "salt", "corpus", "dcgm"})
"""Options that say where something is, belong to somebody, or stand in the setup in a form of their own."""

_START = "rotoscope replay"
_TRACES = "CORPUS"
_COUNT = r"[0-9]{1,12}"
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,24})?"
_NAME = r"[a-z0-9.]{1,20}"
_LIMIT = r"[a-z]{1,8}:[0-9.e+-]{1,24}"


@dataclass(frozen=True, slots=True)
class _Option:
    field: str
    """Of the options of a replay."""
    flag: str
    form: str
    """Matches its value; empty for a flag without one."""
    text: Callable[[Any], str | None] = str
    """Takes the field's value; None leaves the flag out."""

    def words(self, options: ReplayOptions) -> list[str]:
        value = getattr(options, self.field)
        text = None if value is None else self.text(value)
        if text is None or (value == _DEFAULTS[self.field] and self.field != "seed"):
            return []
        return [self.flag, text] if text else [self.flag]


def _number(value: float) -> str:
    return f"{Decimal(repr(float(value))):f}".removesuffix(".0")


_OPTIONS = (
    _Option("engine", "--engine", _NAME),
    _Option("api", "--api", _NAME),
    _Option("preflight", "--no-preflight", "", lambda value: ""),
    _Option("sessions", "--sessions", _COUNT),
    _Option("mix", "--mix", rf"{_NUMBER}(?::{_NUMBER})*", lambda mix: ":".join(_number(share.weight) for share in mix)),
    _Option("fixed", "--fixed", rf"{_COUNT}:{_COUNT}"),
    _Option("duration_s", "--duration", _NUMBER, _number),
    _Option("until_ci", "--until-ci", rf"{_NUMBER}%", lambda share: f"{_number(round(100 * share, 9))}%"),
    _Option("concurrency", "--concurrency", _COUNT),
    _Option("rate_per_h", "--rate", rf"{_NUMBER}/h", lambda rate: f"{_number(rate)}/h"),
    _Option(
        "arrivals",
        "--arrivals",
        r"constant|gamma:[0-9.e+-]{1,24}",
        lambda arrivals: None if arrivals == POISSON else str(arrivals),
    ),
    _Option("recorded_starts_s", "--arrivals", "recorded", lambda starts: "recorded"),
    _Option("warm_up", "--warm-up", f"auto|{_COUNT}"),
    _Option("ramp_s", "--ramp", _NUMBER, _number),
    _Option("seed", "--seed", r"-?[0-9]{1,20}"),
    _Option("limits", "--goodput", rf"{_LIMIT}(?:,{_LIMIT})*"),
    _Option("gpus", "--gpus", _COUNT),
    _Option("max_batch", "--max-batch", _COUNT),
    _Option("profile", "--profile", r"[a-z0-9.-]{1,32}"),
    _Option("block_size", "--block-size", _COUNT),
    _Option("vocabulary", "--vocab", r"[0-9]{1,10}:[0-9]{1,10}"),
    _Option("timeout_s", "--timeout", _NUMBER, _number),
    _Option("gaps", "--gaps", "tools|none", lambda gaps: None if gaps.kind == "recorded" else str(gaps.kind)),
    _Option("gaps", "--gap-scale", _NUMBER, lambda gaps: None if gaps.scale == 1 else _number(gaps.scale)),
    _Option("gaps", "--gap-cap", _NUMBER, lambda gaps: None if gaps.cap_s is None else _number(gaps.cap_s)),
    _Option("skipped_gates", "--skip-gate", "|".join(GATES), lambda gates: " --skip-gate ".join(gates)),
)
_ASSUMES_GROWTH = "--assume-growth"
_SIMULATE = "--simulate"
_SETTING = (
    rf"--set (?:(?:blocks|host_blocks|block_size|replicas|max_batch|seed)={_COUNT}"
    rf"|router=(?:round-robin|kv)|profile=[a-z0-9.-]{{1,32}}|timing=(?:{'|'.join(TIMINGS)}))"
)
_DEFAULTS = {
    one.name: one.default_factory() if one.default_factory is not MISSING else one.default
    for one in fields(ReplayOptions)
}

TOLD = frozenset(option.field for option in _OPTIONS)
"""Fields of the options of a replay that the command tells."""
COMMAND = (
    rf"{_START}(?: {_TRACES})?(?: {_SIMULATE})?(?: {_SETTING})*(?: {_ASSUMES_GROWTH}| "
    + "| ".join(rf"{option.flag} (?:{option.form})" if option.form else option.flag for option in _OPTIONS)
    + ")*"
)
"""Matches a command that this module writes, whole, and as good as nothing else."""


def command_of(
    options: ReplayOptions, *, assumes_growth: bool = False, simulated: Mapping[str, str] | None = None
) -> str:
    """Return what to type for the same run again, with the traces for CORPUS and the server's URL.

    `simulated` are the settings of the simulator that was asked in modelled time; None is a server.
    """
    words = [_START, *([] if options.fixed else [_TRACES])]
    if simulated is not None:
        words += [_SIMULATE, *(f"--set {name}={value}" for name, value in simulated.items())]
    words += [_ASSUMES_GROWTH] if assumes_growth else []
    for option in _OPTIONS:
        words += option.words(options)
    return " ".join(words)
