"""Record one run of a command: a gateway in front of its server for as long as it runs, and a trace at its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rotoscope.proxy.child import Child
from rotoscope.proxy.gateway import Gateway
from rotoscope.proxy.names_file import NamesFile
from rotoscope.proxy.place import claim
from rotoscope.proxy.run import Finished, RecordedRun, begin
from rotoscope.proxy.standing import Standing, keep_prompts_off_the_disk, standing
from rotoscope.proxy.summary import counted
from rotoscope.proxy.telling import about, say
from rotoscope.proxy.upstream import Upstream, upstream_as_is, upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.token_counters import Tokenizer
from rotoscope.traces.errors import UnusableInput

UPSTREAM_VARIABLE = "OPENAI_BASE_URL"
BASE_URL_VARIABLES = (UPSTREAM_VARIABLE, "OPENAI_API_BASE", "OPENAI_API_BASE_URL", "HOSTED_VLLM_API_BASE")
"""Where clients of OpenAI-compatible servers look for their base URL."""
GATEWAY_VARIABLE = "ROTOSCOPE_BASE_URL"
"""The same address, for clients that take it from an option or a file of their own."""
PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


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


def chosen_upstream(given: str | None, environment: Mapping[str, str]) -> Upstream:
    """Return the upstream that was given, else the one that clients in this environment would use.

    Raises UnusableInput.
    """
    if given:
        return upstream_given(given)
    if environment.get(UPSTREAM_VARIABLE):
        return upstream_as_is(environment[UPSTREAM_VARIABLE])
    raise UnusableInput(
        f"no server to record in front of: give --upstream, like 'http://localhost:8000/v1', or set {UPSTREAM_VARIABLE}"
    )


def child_environment(environment: Mapping[str, str], base_url: str) -> dict[str, str]:
    """Return the environment that makes the clients of a command take the gateway for their server."""
    changed = dict.fromkeys((*BASE_URL_VARIABLES, GATEWAY_VARIABLE), base_url)
    if any(environment.get(name) for name in PROXY_VARIABLES):
        for name in ("NO_PROXY", "no_proxy"):
            changed[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1")))
    return {**environment, **changed}


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
            environment = child_environment(os.environ, options.upstream.base_url(gateway.origin))
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
            f"need the address in ${GATEWAY_VARIABLE} as their base URL"
        )
    return f"NOTHING WAS RECORDED: {reason}"
