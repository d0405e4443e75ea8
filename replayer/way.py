"""The way in which a server is asked in a run: its API, and prompts that are made for it, tried before the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import aiohttp

from rotoscope.replayer.backends.apis import Api, api_named
from rotoscope.replayer.backends.engines import ANY_ENGINE, ENGINES, Engine
from rotoscope.replayer.backends.http import Tell
from rotoscope.replayer.exchange import Backend
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import AUTO_API, ReplayOptions
from rotoscope.replayer.preflight import IdsRefused, check_server
from rotoscope.replayer.prompting import Prompting, choose_prompting
from rotoscope.replayer.server import Server

BackendOf: TypeAlias = Callable[[Engine, Api, Tell, float], Backend]
"""Takes an engine, an API, what to tell failures to, and the longest silence in seconds."""

_LONGEST_TRY_S = 60.0
"""A server that does not answer a few tokens so soon is noted; the run is as patient as was asked for."""

_IDS_API = "completions"
_OTHER_API = "chat"
_API_OF_ENGINE = {"openai": "chat", "anthropic": "messages"}
"""Of hosted endpoints, which take no token ids."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a server is asked."""

    api: Api
    engine: Engine
    backend: Backend
    prompting: Prompting


@dataclass(frozen=True, slots=True)
class Ways:
    """What a way is chosen from: one server, as it was told and as it tells of itself."""

    options: ReplayOptions
    server: Server
    notes: Notes
    http: aiohttp.ClientSession
    backend_of: BackendOf

    async def choose(self) -> Way:
        """Return the API that was asked for, or the first that is taken; raise RunFailed where none is."""
        asked_for = self.options.api
        name = asked_for if asked_for != AUTO_API else _API_OF_ENGINE.get(self.server.engine.name, _IDS_API)
        way = await self._way(api_named(name), self.server.engine)
        if not self.options.preflight or way.api.prompts != "ids":
            return way
        try:
            return await self._tried(way)
        except IdsRefused:
            if asked_for != AUTO_API:
                raise
        self.notes.add(
            "the server takes no prompts of token ids, or refuses what is sent with them: they are made of words, as with --api chat"
        )
        return await self._way(api_named(_OTHER_API), self.server.engine)

    async def _way(self, api: Api, engine: Engine) -> Way:
        backend = self.backend_of(engine, api, self.notes.hear, self.options.timeout_s)
        prompting = await choose_prompting(api, self.options, self.server, self.notes, http=self.http, backend=backend)
        return Way(api, engine, backend, prompting)

    async def _tried(self, way: Way) -> Way:
        """Return a way that the server takes; where its engine is not known, requests may be those of another one."""
        try:
            await self._try(way)
        except IdsRefused as refusal:
            if refusal.kind is not FailureKind.BAD_REQUEST or way.engine is not ANY_ENGINE:
                raise
            for engine in _other_engines(way.engine):
                other = await self._way(way.api, engine)
                with suppress(IdsRefused):
                    await self._try(other)
                    self.notes.add(f"the server takes requests as they are made for --engine {engine.name}")
                    return other
            raise
        return way

    async def _try(self, way: Way) -> None:
        said: list[str] = []

        def hear(kind: FailureKind, message: str) -> None:
            said.append(message)

        await check_server(
            self.backend_of(way.engine, way.api, hear, min(_LONGEST_TRY_S, self.options.timeout_s)),
            api=way.api.name,
            vocabulary=way.prompting.vocabulary,
            salt=self.options.salt,
            notes=self.notes,
            said=said,
        )


def _other_engines(engine: Engine) -> Iterator[Engine]:
    """Yield one engine for each other way of asking for output ids."""
    seen = [engine.asks_for_ids]
    for other in ENGINES.values():
        if other.is_greedy and other.asks_for_ids not in seen:
            seen.append(other.asks_for_ids)
            yield other
