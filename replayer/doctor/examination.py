"""Examine a server: all checks in their order, and the command that replays traces on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from rotoscope.replayer.backends.engines import ANY_ENGINE, engine_named
from rotoscope.replayer.connection import client_session
from rotoscope.replayer.doctor.asking import Asker
from rotoscope.replayer.doctor.caching import check_caching
from rotoscope.replayer.doctor.checks import Check, Diagnosis, Known, fail, none, ok, warn
from rotoscope.replayer.doctor.conversing import check_chat
from rotoscope.replayer.doctor.counting import Counters, check_counters, check_endpoint
from rotoscope.replayer.doctor.endpoints import check_apis, check_context, check_tokenizer
from rotoscope.replayer.doctor.ids import check_ids, not_tried
from rotoscope.replayer.doctor.lengths import check_lengths
from rotoscope.replayer.doctor.recommendation import replay_command
from rotoscope.replayer.doctor.wire import Wire
from rotoscope.replayer.server import DEFAULT_VOCABULARY, Server, api_url, ask_server
from rotoscope.replayer.server_metrics.scrape import Endpoint, find_metrics
from rotoscope.replayer.setup import public_model_name
from rotoscope.traces.errors import UnusableInput

DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Which server is examined, and how patiently; raises UnusableInput for values that cannot be."""

    url: str
    """Of the server, with or without `/v1`."""
    model: str | None = None
    """None asks the server, which must offer exactly one."""
    engine: str | None = None
    """What runs behind the URL; None believes what the server says and tries the others."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """Longest time of one request; after two that took it no more are sent."""
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    """Name of the variable that held the key, for the command that is recommended."""
    pause_s: float = 0.25
    """Between looks at counters that lag behind."""

    def __post_init__(self) -> None:
        if api_url(self.url).user and self.api_key is not None:
            raise UnusableInput("expected an API key or a user in the URL, not both")
        if not self.timeout_s > 0:
            raise UnusableInput(f"the timeout must be more than 0 seconds, not {self.timeout_s}")
        if self.engine is not None:
            engine_named(self.engine)


def examine(examination: Examination, *, watch: Callable[[str], None] = lambda doing: None) -> Diagnosis:
    """Examine a server; raise RunFailed where nobody answers. `watch` takes what is being done, for people."""
    return asyncio.run(examine_async(examination, watch=watch))


async def examine_async(examination: Examination, *, watch: Callable[[str], None] = lambda doing: None) -> Diagnosis:
    """Do the same inside a running event loop."""
    url = api_url(examination.url)
    engine = engine_named(examination.engine) if examination.engine else ANY_ENGINE
    timeout_s = examination.timeout_s
    async with client_session(
        api_key=examination.api_key, engine=engine, timeout_s=timeout_s, reuses_connections=False
    ) as http:
        watch("asking for the model")
        server = await ask_server(http, url, model=examination.model, timeout_s=timeout_s, engine=examination.engine)
        known = Known(server, context_tokens=server.context_tokens)
        wire = Wire(http, url, timeout_s=timeout_s)
        checks = [_reached(server), _model(server), _vocabulary(server)]
        checks += await _checks(wire, known, watch, pause_s=examination.pause_s)
    command = replay_command(
        known, url, model=examination.model, engine=examination.engine, api_key_env=examination.api_key_env
    )
    return Diagnosis(checks, command if known.apis else "")


async def _checks(wire: Wire, known: Known, watch: Callable[[str], None], *, pause_s: float) -> list[Check]:
    server = known.server
    asker = Asker(wire, model=server.model, vocabulary=server.vocabulary or DEFAULT_VOCABULARY, engine=server.engine)
    watch("sending prompts of token ids")
    checks = await check_ids(asker, known)
    if known.takes_ids:
        watch("looking for the longest context")
        checks.append(await check_context(asker, known))
    watch("looking for metrics")
    endpoint = await find_metrics(wire.http, wire.api, timeout_s=wire.timeout_s)
    counters = (
        Counters(wire.http, endpoint, timeout_s=wire.timeout_s, pause_s=pause_s)
        if isinstance(endpoint, Endpoint)
        else None
    )
    asker.count_anew()
    if known.takes_ids:
        watch("making answers end early")
        checks += await check_lengths(asker, known)
        watch("repeating prompts")
        checks += await check_caching(asker, known, counters)
    else:
        checks += not_tried()
    checks.append(check_endpoint(endpoint, known))
    if known.takes_ids and counters is not None:
        watch("comparing counters")
        checks.append(await check_counters(asker, counters))
    watch("looking for other APIs")
    checks += [*await check_apis(wire, known), await check_tokenizer(wire, known)]
    if not known.takes_ids and "chat" in known.apis:
        watch("chatting")
        checks += await check_chat(wire, known)
    if not known.apis:
        checks.append(fail("replay", "no API of this server answers", "see the server's log"))
    return checks


def _reached(server: Server) -> Check:
    kind = "a simulator" if server.simulated else f"engine {server.engine.name} by its own word"
    return ok("server", f"answers, {'engine not told' if server.engine is ANY_ENGINE else kind}")


def _model(server: Server) -> Check:
    if server.is_listed:
        return ok("model", public_model_name(server.model))
    return warn("model", f"{public_model_name(server.model)}, which /v1/models does not list", "check --model")


def _vocabulary(server: Server) -> Check:
    if server.vocabulary is not None:
        return ok("vocabulary", f"ids {server.vocabulary} are ordinary tokens, by /v1/models")
    advice = "give --vocab where the model's config.json has a smaller vocab_size"
    return none("vocabulary", f"not told: prompts hold ids {DEFAULT_VOCABULARY}", advice)
