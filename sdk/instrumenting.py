"""`instrument`: what records the runs of this process, and lets its HTTP clients take part."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rotoscope.recorder.variables import (
    FOLDER_VARIABLE,
    GATEWAY_VARIABLE,
    PROCESS_VARIABLE,
    TOKEN_VARIABLE,
    TOKENIZER_VARIABLE,
)
from rotoscope.sdk import recordings
from rotoscope.sdk.gateways import Gateway, NoGateway, gateway_at, gateway_of, named_in
from rotoscope.sdk.runs import Recording
from rotoscope.sdk.spanned import with_call_spans
from rotoscope.sdk.transports.patching import listen, listening


def instrument(*, gateway: str | None = None, folder: Path | str | None = None, tokenizer: str | None = None) -> None:
    """Record this process: by a gateway that stands at a base URL, or into a folder.

    `tokenizer` is what counts for the folder where the server does not, as in `rotoscope record`: auto, none, the name of
    an encoding or a tokenizer.json.

    Under `rotoscope record` its gateway records whatever is given here, and with nothing given what the environment leads
    to. Where that is nothing, calls have spans all the same if the process has a tracer provider. Raises UnusableInput
    where the gateway has no URL, the folder cannot be written, or both are given.
    """
    from rotoscope.traces.errors import UnusableInput

    if gateway is not None and folder is not None:
        raise UnusableInput("expected gateway= or folder=, not both")
    if recordings.is_disabled():
        return
    try:
        chosen = _chosen(gateway, folder, tokenizer)
    except NoGateway as error:
        raise UnusableInput(str(error)) from error
    if chosen is not None:
        recordings.record_by(chosen)
    elif listening() is None:
        listen(with_call_spans())


def _chosen(gateway: str | None, folder: Path | str | None, tokenizer: str | None) -> Recording | None:
    """Return what is to record; raise NoGateway where a gateway is none."""
    by_environment = gateway_of(os.environ)
    if by_environment is not None and by_environment.is_of_command:
        return _by_gateway(by_environment)
    if gateway is not None:
        return _by_gateway(gateway_at(gateway, named_in(os.environ, TOKEN_VARIABLE)), {GATEWAY_VARIABLE: gateway})
    if folder is not None:
        return _by_process(os.environ) or _alone(_writable(Path(folder)), tokenizer)
    return recording_by_environment(os.environ)


def recording_by_environment(environment: Mapping[str, str]) -> Recording | None:
    """Return what records where nobody says so but the environment; raise NoGateway where it is wrong."""
    chosen = gateway_of(environment)
    if chosen is not None:
        return _by_gateway(chosen)
    folder = environment.get(FOLDER_VARIABLE)
    return _by_process(environment) or (_alone(Path(folder), None) if folder else None)


def _by_process(environment: Mapping[str, str]) -> Recording | None:
    """Let the process record that began this one, if that records itself."""
    if not environment.get(PROCESS_VARIABLE):
        return None
    from rotoscope.sdk.uplinks import Joined, joined

    now = recordings.current_recording()
    if isinstance(now, Joined):
        return now
    recording = joined(environment)
    if recording is not None:
        listen(with_call_spans(recording.hear))
    return recording


def _by_gateway(gateway: Gateway, environment: Mapping[str, str] = {}) -> Recording:
    """Record by a gateway, and let HTTP clients tell it who sends."""
    from rotoscope.sdk.gateway_headers import GatewayHeaders
    from rotoscope.sdk.gateway_recording import GatewayRecording

    now = recordings.current_recording()
    if isinstance(now, GatewayRecording) and now.gateway == gateway:
        return now
    listen(with_call_spans(GatewayHeaders(gateway)))
    return GatewayRecording(gateway, environment)


def _writable(folder: Path) -> Path:
    """Return a folder in which a trace can be written; raise UnusableInput where none can."""
    from rotoscope.recorder.numbered_files import claim

    claim(folder).give_up()
    return folder


def _alone(folder: Path, tokenizer: str | None) -> Recording:
    """Record into a folder what HTTP clients send and get."""
    from rotoscope.recorder.token_counters import AUTO, chosen_tokenizer
    from rotoscope.sdk.alone import Alone

    now = recordings.current_recording()
    if isinstance(now, Alone) and now.folder == folder:
        return now
    named = tokenizer or os.environ.get(TOKENIZER_VARIABLE) or AUTO
    alone = Alone(folder, tokenizer=chosen_tokenizer(named))
    listen(with_call_spans(alone.hear))
    return alone


recordings.be_led()
