"""Record one run of a command whose server cannot be changed: what it says is opened on its way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import ssl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rotoscope.proxy.child import Child
from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk
from rotoscope.proxy.intercept.addon import Interceptor
from rotoscope.proxy.intercept.again import sending_again
from rotoscope.proxy.intercept.authority import authority
from rotoscope.proxy.intercept.caller import as_root
from rotoscope.proxy.intercept.environment import led_through
from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts
from rotoscope.proxy.intercept.interception import intercepting
from rotoscope.proxy.intercept.modes import Mode, chosen_mode
from rotoscope.proxy.intercept.namespace import PORTS, Namespace, namespace
from rotoscope.proxy.recording import Recording, recording
from rotoscope.proxy.standing import DRAIN_S
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.numbered_files import claim
from rotoscope.recorder.recorded_run import Finished, RecordedRun, begin
from rotoscope.recorder.telling import about, say
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.phrases import counted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InterceptOptions:
    """What `rotoscope record --intercept` was asked for."""

    command: Sequence[str]
    recording: Recording
    hosts: Hosts
    mode: Mode
    campaign: Campaign | None = None
    """Shared with other recordings; None where this one stands alone."""
    asks_usage: bool = True
    """Ask for the usage of response streams where the client does not."""
    client_cert: Path | None = None
    """What servers are shown that ask for a certificate."""


def intercepted(
    command: Sequence[str],
    how: Recording,
    campaign: Campaign | None,
    *,
    hosts: Sequence[str] = (),
    mode: str = "regular",
    asks_usage: bool = True,
    client_cert: Path | None = None,
) -> int:
    """Run the command, record its calls and write its trace; return the command's exit status (128 + n for a signal).

    Servers that ask for a certificate are shown that of `client_cert`, a file of PEM with its key.
    Raises UnusableInput when hosts, mode or certificate are none, the folder cannot be written or the command cannot be started.
    """
    chosen = chosen_mode(mode, os.environ)
    _check(client_cert)
    options = InterceptOptions(command, how, chosen_hosts(hosts), chosen, campaign, asks_usage, client_cert)
    return asyncio.run(_run(options))


async def _run(options: InterceptOptions) -> int:
    ended: list[Finished] = []
    child = Child()
    core_limit = resource.getrlimit(resource.RLIMIT_CORE)  # the command keeps its own
    keep_prompts_off_the_disk()
    with (
        child.signals_forwarded(),
        _surroundings(options.mode) as space,
        authority(os.environ, hosts=options.hosts) as trusted,
    ):
        run = _begun(options)
        mode = options.mode if space is None else replace(options.mode, host=space.outside)
        async with (
            recording(
                options.recording,
                finished=lambda finished, _: ended.append(finished),
                notice=_log.warning,
                first=run,
            ) as (runs, counting),
            sending_again(str(trusted.trusted), options.mode.behind, options.client_cert) as again,
        ):
            interceptor = Interceptor(
                runs,
                options.hosts,
                notice=_log.warning,
                counting=counting,
                asks_usage=options.asks_usage,
                again=again,
            )
            async with intercepting(interceptor, mode, trusted, options.hosts, options.client_cert) as addresses:
                say(f"recording what is said to inference hosts to {run.place and run.place.trace}")
                command, environment = options.command, {**os.environ, **trusted.variables}
                if mode.is_asked:
                    environment = led_through(
                        environment,
                        *addresses[0],
                        hosts=options.hosts,
                        asks_for=mode.asks_for,
                        is_direct=mode.behind is None,
                    )
                if space is not None:
                    space.lead_to(addresses[0][1], sorted({*PORTS, *options.hosts.ports}))
                    command, environment = space.entered(command, environment)
                with as_root() if space is not None else contextlib.nullcontext():
                    await child.start(command, environment, core_limit=core_limit)
                status = await child.wait()
                await interceptor.stop(drain_s=DRAIN_S)
    lines = [line for finished in ended for line in about(finished)]
    for line in lines or [_nothing_recorded(interceptor, options.mode, in_trouble=bool(run.recorder.trouble))]:
        say(line)
    return status


def _begun(options: InterceptOptions) -> RecordedRun:
    how = options.recording
    return begin(claim(how.folder), options.campaign, tokenizer=how.tokenizer_name, keeps_names=how.names is not None)


def _check(client_cert: Path | None) -> None:
    """Raise UnusableInput where a file is no certificate that servers can be shown."""
    if client_cert is not None:
        try:
            ssl.create_default_context().load_cert_chain(client_cert, password="")  # so that nobody is asked for one
        except (OSError, ValueError) as error:
            raise UnusableInput(
                f"{client_cert}: this is no certificate to show to servers: give a file of PEM that holds it and its key, "
                "without a password"
            ) from error


def _surroundings(mode: Mode) -> contextlib.AbstractContextManager[Namespace | None]:
    return namespace() if mode.makes_namespace else contextlib.nullcontext()


def _nothing_recorded(interceptor: Interceptor, mode: Mode, *, in_trouble: bool) -> str:
    if interceptor.calls:
        reason = f"{counted(interceptor.calls, 'call')} came, and the server answered none of them"
    elif in_trouble:
        reason = "what the recorder could not do is told above"
    elif interceptor.requests:
        reason = f"{counted(interceptor.requests, 'request')} came, none of them a call"
    elif interceptor.behind.failed:
        reason = "connections did not get through the proxy behind this one, which is told above"
    elif interceptor.unreached:
        reason = f"a connection to inference hosts could not be made from here, {_most(interceptor.unreached)}"
    elif interceptor.opening.connections:
        hosts = _most(interceptor.opening.connections)
        reason = f"connections were opened and nothing was said, to {hosts}: its client may pin a certificate"
    elif interceptor.unopened:
        hosts = _most(interceptor.unopened)
        reason = f"connections went to other hosts, {hosts}: --intercept-host HOST opens one"
    elif not mode.is_asked:
        reason = "no connection came"
    else:
        reason = (
            "no connection came; a server of this machine has to be named, as in --intercept-host localhost:8000, "
            "and a client that does not read HTTPS_PROXY is recorded with --intercept-mode namespace"
        )
    return f"NOTHING WAS RECORDED: {reason}"


def _most(numbers: Counter[str]) -> str:
    return ", ".join(f"{host} ({number})" for host, number in numbers.most_common(5))
