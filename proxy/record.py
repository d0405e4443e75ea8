"""Record one run of a command: a gateway in front of its server for as long as it runs, and a trace at its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from rotoscope.proxy.child import Child
from rotoscope.proxy.gateway import Gateway
from rotoscope.proxy.measure import Measurer
from rotoscope.proxy.place import Place, claim
from rotoscope.proxy.summary import counted, summary
from rotoscope.proxy.upstream import Upstream, open_session, upstream_as_is, upstream_given
from rotoscope.recorder.recorder import Recorder
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.journal import JournalWriter
from rotoscope.traces.writer import save

_log = logging.getLogger(__name__)

UPSTREAM_VARIABLE = "OPENAI_BASE_URL"
BASE_URL_VARIABLES = (UPSTREAM_VARIABLE, "OPENAI_API_BASE", "OPENAI_API_BASE_URL", "HOSTED_VLLM_API_BASE")
"""Where clients of OpenAI-compatible servers look for their base URL."""
GATEWAY_VARIABLE = "ROTOSCOPE_BASE_URL"
"""The same address, for clients that take it from an option or a file of their own."""
PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")

DRAIN_S = 2.0
"""How long requests that are open when the command ends may take; a process it left behind may still be talking."""
MEASURING_S = 60.0
"""How long measuring may go on after the command has ended."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What `rotoscope record` was asked for."""

    command: Sequence[str]
    upstream: Upstream
    folder: Path
    measure: bool = False
    """Ask the upstream for the token ids of each prompt, which sends it a second time."""


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
    place = claim(options.folder)
    try:
        return asyncio.run(_run(options, place))
    except UnusableInput:
        place.give_up()
        raise


async def _run(options: RecordOptions, place: Place) -> int:
    asyncio.get_running_loop().set_exception_handler(tell_kind_of_error)
    recorder = Recorder(JournalWriter(place.journal))
    child = Child()
    with child.signals_forwarded():
        async with (
            open_session(options.upstream) as session,
            _measuring(options, session) as measurer,
            _running(
                Gateway(options.upstream, recorder, session=session, notice=_log.warning, measurer=measurer)
            ) as gateway,
        ):
            say(f"recording {options.upstream.origin} to {place.trace}")
            environment = child_environment(os.environ, options.upstream.base_url(gateway.origin))
            await child.start(options.command, environment)
            # Prompts are in memory from here on; a crash must not write them to disk. The command keeps its own limit.
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            status = await child.wait()
        try:
            _finish(recorder, gateway, place)
        except Exception as error:  # noqa: BLE001 - whatever fails here, the status that comes back is the command's
            say(_no_trace(place, type(error).__name__))
    return status


@contextlib.asynccontextmanager
async def _running(gateway: Gateway) -> AsyncIterator[Gateway]:
    """Run the gateway as long as the block runs."""
    try:
        await gateway.start()
        yield gateway
    finally:
        await gateway.stop(drain_s=DRAIN_S)


@contextlib.asynccontextmanager
async def _measuring(options: RecordOptions, session: aiohttp.ClientSession) -> AsyncIterator[Measurer | None]:
    """Run a measurer when one is asked for, and give it time to end."""
    if not options.measure:
        yield None
        return
    measurer = Measurer(options.upstream, session, notice=_log.warning)
    task = asyncio.create_task(measurer.run())
    try:
        yield measurer
        await measurer.finish(timeout_s=MEASURING_S)
    finally:
        task.cancel()
        await asyncio.wait([task])


def _finish(recorder: Recorder, gateway: Gateway, place: Place) -> None:
    """Write the trace, then remove the journal; tell what was recorded."""
    trace = recorder.close()
    if trace is None and not gateway.answered:
        place.give_up()
        say(_nothing_recorded(gateway, in_trouble=bool(recorder.trouble)))
        return
    if trace is None:
        say(_no_trace(place, "it could not be made"))
        return
    try:
        save(trace, place.trace)
    except OSError as error:
        say(_no_trace(place, error.strerror or type(error).__name__))
        return
    place.give_up()
    for line in summary(trace):
        say(line)
    say(f"trace: {place.trace}")


def _no_trace(place: Place, reason: str) -> str:
    return f"RECORDING FAILED: there is no trace: {reason}; 'rotoscope recover {place.journal}' tries again"


def say(line: str) -> None:
    """Tell the person who records; standard output belongs to the command."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"rotoscope: {line}\n")
        sys.stderr.flush()


def _nothing_recorded(gateway: Gateway, *, in_trouble: bool) -> str:
    if gateway.calls:
        reason = f"{counted(gateway.calls, 'call')} came, and the server answered none of them"
    elif in_trouble:
        reason = "what the recorder could not do is told above"
    elif gateway.requests:
        reason = f"{counted(gateway.requests, 'request')} came, none to /chat/completions"
    else:
        reason = (
            f"no request came; clients that do not read {' or '.join(BASE_URL_VARIABLES[:2])} "
            f"need the address in ${GATEWAY_VARIABLE} as their base URL"
        )
    return f"NOTHING WAS RECORDED: {reason}"


def tell_kind_of_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell that something went wrong outside any call, without the text of it, which may hold what passed."""
    _log.warning("an error of the gateway outside any call: %s", type(context.get("exception")).__name__)
