"""The gateway as a service: it runs until it is told to end, and each run's trace is written when the run ends."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk
from rotoscope.proxy.desk import health
from rotoscope.proxy.door import Door, is_loopback
from rotoscope.proxy.screen import Screen, screen_of_stderr
from rotoscope.proxy.standing import Standing, Stood, standing
from rotoscope.recorder.numbered_files import claim
from rotoscope.recorder.own_headers import RUN_HEADER, TOKEN_HEADER
from rotoscope.recorder.recorded_run import Finished
from rotoscope.recorder.telling import about_in_one_line, say
from rotoscope.recorder.variables import GATEWAY_VARIABLE, TOKEN_VARIABLE
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.phrases import counted

DRAIN_S = 8.0
"""How long open calls may take when the gateway is told to end; supervisors commonly kill after 10 s."""

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,256}")
_REDRAWN_S = 0.5


@dataclass(frozen=True, slots=True)
class Service:
    """What `rotoscope proxy` was asked for."""

    standing: Standing
    campaign: str = ""
    """Name of the campaign, for the status line."""


def chosen_door(host: str, *, allow_remote: bool, token_file: Path | None, environment: Mapping[str, str]) -> Door:
    """Return who may use a gateway that listens on a host; other machines never without a token.

    Raises UnusableInput.
    """
    token = _token(token_file, environment)
    if not is_loopback(host):
        if not allow_remote:
            raise UnusableInput(
                f"{host} can be reached from other machines: say so with --allow-remote, and give a token"
            )
        if not token:
            raise UnusableInput(
                f"a gateway for other machines needs a token: put it into a file for --token-file or into {TOKEN_VARIABLE}"
            )
    return Door(token)


def serve(service: Service) -> int:
    """Run the gateway until SIGINT or SIGTERM; return 0, or 1 when a trace was lost.

    A first signal lets open calls end, a second one cuts them. Raises UnusableInput when it cannot begin.
    """
    claim(service.standing.folder).give_up()
    return asyncio.run(_serve(service))


async def _serve(service: Service) -> int:
    ending = asyncio.Event()
    with screen_of_stderr() as screen:
        async with standing(service.standing, finished=_tell, notice=_warn) as stood:
            _take_signals(ending, stood)
            keep_prompts_off_the_disk()
            _introduce(service.standing, stood)
            await _show_until(ending, screen, service, stood)
            say(f"ending: {counted(stood.gateway.in_flight, 'request')} in flight; a second signal cuts them")
        say(f"{counted(stood.runs.written, 'trace')} written")
    return 1 if stood.runs.unwritten else 0


def _take_signals(ending: asyncio.Event, stood: Stood) -> None:
    def end() -> None:
        if ending.is_set():
            stood.hurry.set()
        ending.set()

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(signum, end)


def _introduce(how: Standing, stood: Stood) -> None:
    """Tell what to set on the client; standard output gets the base URL of each port, a line each, alone."""
    gateway, path = stood.gateway, how.upstream.base_path
    base_url = how.upstream.base_url(gateway.origin)
    say(f"recording {how.upstream.origin} to {how.folder}")
    say(f"clients take as their base URL {base_url}")
    if bare := how.upstream.without_version(gateway.origin):
        say(f"and where they add the version themselves, as Anthropic's and Google's do, {bare}")
    for origin in gateway.origins[1:]:
        say(f"or, as another run, {origin}{path}")
    say(f"a run of its own for each NAME: {gateway.origin}/run/NAME{path}, or the header {RUN_HEADER}: NAME")
    say(f"and for each outermost agent of programs that tell of their agents, with {GATEWAY_VARIABLE}={gateway.origin}")
    if how.door.token:
        say(
            f"each request must bring the token: {gateway.origin}/token/TOKEN{path}, or the header {TOKEN_HEADER}: TOKEN"
        )
    if not is_loopback(how.host):
        say(
            "other machines put the name of this one into the address; what passes is not encrypted between them and here"
        )
    print(*map(how.upstream.base_url, gateway.origins), sep="\n", flush=True)


async def _show_until(ending: asyncio.Event, screen: Screen, service: Service, stood: Stood) -> None:
    while not ending.is_set():
        screen.show(_status(service, stood))
        try:
            await asyncio.wait_for(ending.wait(), _REDRAWN_S)
        except TimeoutError:
            continue
    screen.show("")


def _status(service: Service, stood: Stood) -> str:
    """Return how things are, in the width of a terminal."""
    told = health(stood.gateway, stood.runs)
    calls = f"{counted(told['calls'], 'call')}, {stood.gateway.in_flight} in flight, {told['failed']} failed"
    parts = [
        f"{counted(told['runs']['open'], 'run')}, {counted(told['runs']['written'], 'trace')}",
        f"{calls}, {told['unrecorded']} unrecorded",
        service.campaign,
    ]
    return " | ".join(filter(None, parts))


def _tell(finished: Finished, _: str) -> None:
    """Tell of a run without its name: what a service says goes to a log."""
    if finished.path or finished.trouble:
        say(about_in_one_line(finished))


def _warn(line: str) -> None:
    say(f"warning: {line}")


def _token(file: Path | None, environment: Mapping[str, str]) -> str:
    if file is None:
        token = environment.get(TOKEN_VARIABLE, "")
    else:
        try:
            token = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UnusableInput(f"{file}: the token cannot be read: {reason}") from error
    if (token or file) and not _TOKEN.fullmatch(token):
        raise UnusableInput(
            "a token has 16 to 256 letters, digits and -._~: "
            "make one with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token
