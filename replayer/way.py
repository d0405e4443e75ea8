"""The way in which a server is asked in a run: its API, and prompts that are made for it, tried before the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import aiohttp

from rotoscope.replayer.backends.apis import Api, api_named
from rotoscope.replayer.backends.http import Tell
from rotoscope.replayer.exchange import Backend
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import AUTO_API, ReplayOptions
from rotoscope.replayer.preflight import IdsRefused, check_server
from rotoscope.replayer.prompting import Prompting, choose_prompting
from rotoscope.replayer.server import Server

BackendOf: TypeAlias = Callable[[Api, Tell, float], Backend]
"""Takes an API, what to tell failures to, and the longest silence in seconds."""

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
    backend: Backend
    prompting: Prompting


async def choose_way(
    options: ReplayOptions, server: Server, notes: Notes, *, http: aiohttp.ClientSession, backend_of: BackendOf
) -> Way:
    """Return the API that was asked for, or the first that the server takes; raise RunFailed where it takes none."""

    async def way(name: str) -> Way:
        api = api_named(name)
        backend = backend_of(api, notes.hear, options.timeout_s)
        return Way(api, backend, await choose_prompting(api, options, server, notes, http=http, backend=backend))

    name = options.api if options.api != AUTO_API else _API_OF_ENGINE.get(server.engine.name, _IDS_API)
    chosen = await way(name)
    if options.preflight and chosen.api.prompts == "ids":
        said: list[str] = []

        def hear(kind: FailureKind, message: str) -> None:
            said.append(message)

        backend = backend_of(chosen.api, hear, min(_LONGEST_TRY_S, options.timeout_s))
        try:
            await check_server(
                backend,
                api=name,
                vocabulary=chosen.prompting.vocabulary,
                salt=options.salt,
                notes=notes,
                said=said,
            )
        except IdsRefused:
            if options.api != AUTO_API:
                raise
            notes.add("the server takes no prompts of token ids: they are made of words, as with --api chat")
            return await way(_OTHER_API)
    return chosen
