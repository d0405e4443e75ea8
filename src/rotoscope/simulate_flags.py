"""The options of a replay that name what answers: a server, or the simulator in this process with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from rotoscope.loading import loading

if TYPE_CHECKING:
    from rotoscope.replayer.simulator.server import SimulatorOptions

Url: TypeAlias = Annotated[str | None, typer.Option(help="Server, with or without /v1; this or --simulate.")]
Simulate: TypeAlias = Annotated[
    bool, typer.Option("--simulate", help="Ask no server, but the simulator in modelled time, which takes none.")
]
SetOne: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the simulator, such as blocks=4096; may be repeated.", metavar="NAME=V"),
]


def simulator_given(*, url: str | None, simulate: bool, settings: Sequence[str]) -> SimulatorOptions | None:
    """Return the simulator that is to be asked, None for a server; raise UnusableInput unless it is just one of both."""
    with loading():
        from rotoscope.replayer.servers import GPUS
        from rotoscope.replayer.sweep.settings import parse_settings
        from rotoscope.replayer.sweep.simulated import simulator_of
        from rotoscope.traces.errors import UnusableInput

    if simulate == (url is not None):
        raise UnusableInput("expected --url of a server or --simulate, and not both")
    if not simulate:
        if settings:
            raise UnusableInput("settings are the simulator's: leave --set out, or give --simulate")
        return None
    given = parse_settings(settings)
    if GPUS in given:
        raise UnusableInput("the number of GPUs of one replay is no setting: give --gpus")
    if any(len(values) > 1 for values in given.values()):
        raise UnusableInput("a replay has one value of each setting: rotoscope sweep --simulate varies them")
    return simulator_of({name: values[0] for name, values in given.items()})
