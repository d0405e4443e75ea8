"""Record one run of a command: a gateway in front of its server for as long as it runs, and a trace at its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rotoscope.proxy.addresses import BARE_VARIABLES, BASE_URL_VARIABLES, led_to_gateway
from rotoscope.proxy.child import Child
from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk
from rotoscope.proxy.gateway import Gateway
from rotoscope.proxy.standing import Standing, standing
from rotoscope.proxy.upstream import Upstream
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.names_file import NamesFile
from rotoscope.recorder.numbered_files import claim
from rotoscope.recorder.recorded_run import Finished, RecordedRun, begin
from rotoscope.recorder.telling import about, say
from rotoscope.recorder.token_counters import Tokenizer
from rotoscope.recorder.variables import RECORD_VARIABLE
from rotoscope.traces.phrases import counted


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What `rotoscope record` was asked for."""

    command: Sequence[str]
    upstream: Upstream
    folder: Path
    measure: bool = False
    """Ask the upstream for the token ids of each prompt, which sends it a second time."""
    campaign: Campaign | None = None
    """Shared with other recordings; None where this one stands alone."""
    tokenizer: Tokenizer | None = None
    """What counts texts where the server does not."""
    names: NamesFile | None = None
    """Where names are written, if they are asked for."""
    asks_usage: bool = True
    """Ask for the usage of response streams where the client does not."""


def record(options: RecordOptions) -> int:
    """Run the command, record its calls and write its trace; return the command's exit status (128 + n for a signal).

    Raises UnusableInput when the folder cannot be written or the command cannot be started.
    """
    how = Standing(
        options.upstream,
        options.folder,
        options.campaign or Campaign(),
        options.measure,
        options.tokenizer,
        names=options.names,
        asks_usage=options.asks_usage,
    )
    place, keeps_names = claim(options.folder), options.names is not None
    run = begin(place, options.campaign, tokenizer=how.tokenizer_name, keeps_names=keeps_names)
    return asyncio.run(_run(options, how, run))


async def _run(options: RecordOptions, how: Standing, run: RecordedRun) -> int:
    ended: list[Finished] = []
    child = Child()
    with child.signals_forwarded():
        async with standing(how, finished=lambda finished, _: ended.append(finished), first=run) as stood:
            gateway = stood.gateway
            say(f"recording {options.upstream.origin} to {run.place and run.place.trace}")
            environment = led_to_gateway(os.environ, options.upstream, gateway.origin)
            await child.start(options.command, environment)
            keep_prompts_off_the_disk()  # the command keeps its own limit
            status = await child.wait()
        _tell(ended, gateway, in_trouble=bool(run.recorder.trouble))
    return status


def _tell(ended: Sequence[Finished], gateway: Gateway, *, in_trouble: bool) -> None:
    """Tell what was recorded."""
    lines = [line for finished in ended for line in about(finished)]
    for line in lines or [_nothing_recorded(gateway, in_trouble=in_trouble)]:
        say(line)


def _nothing_recorded(gateway: Gateway, *, in_trouble: bool) -> str:
    if gateway.calls:
        reason = f"{counted(gateway.calls, 'call')} came, and the server answered none of them"
    elif in_trouble:
        reason = "what the recorder could not do is told above"
    elif gateway.requests:
        reason = f"{counted(gateway.requests, 'request')} came, none of them a call"
    else:
        reason = (
            f"no request came; clients that do not read {' or '.join(BASE_URL_VARIABLES[:2])} "
            f"need the address in ${RECORD_VARIABLE} as their base URL; Anthropic's and Google's come "
            f"where {' or '.join(BARE_VARIABLES)} led to the upstream before"
        )
    return f"NOTHING WAS RECORDED: {reason}"
