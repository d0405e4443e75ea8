"""A few tiny requests before a run: does the server do what makes the numbers of a replay true?

Their prompts begin with an id that no prompt of the run holds, so that nothing of the run is found in the cache for
them. What is wrong is said before the run and not after it; `rotoscope doctor` looks more closely.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import orjson

from rotoscope.replayer.exchange import Backend, Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.server import Server
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces.errors import RunFailed
from rotoscope.traces.model import Call

_PROMPT_TOKENS = 24
_OUTPUT_TOKENS = 3
_LONG_PROMPT_TOKENS = 600
"""More than any usual block, so that its repeat must show cached tokens."""

NO_IDS = "the server returns no output ids: later prompts cannot take outputs up from the cache"
NO_CACHED = "the server reports no cached tokens (vLLM: --enable-prompt-tokens-details, SGLang: --enable-cache-report)"

_NOT_TAKEN = (FailureKind.BAD_REQUEST, FailureKind.NOT_FOUND, FailureKind.HTTP_ERROR)
"""What servers answer that know no prompts of ids, or no /v1/completions at all."""
_KEYS = (FailureKind.UNAUTHORIZED, FailureKind.FORBIDDEN)


class IdsRefused(RunFailed):
    """Say that a server does not take prompts of token ids."""

    def __init__(self, message: str, *, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind = kind


async def check_server(
    backend: Backend, *, api: str, vocabulary: Vocabulary, salt: str | None, notes: Notes, said: Sequence[str] = ()
) -> None:
    """Send one to three small prompts of token ids and note what will make numbers wrong.

    `api` is the name of the backend's; `said` is where the backend puts the server's own words about failures. Raises IdsRefused where token ids are not
    taken, and RunFailed where nothing will be. A server that fails in another way may do better in the run, which
    tells.
    """
    prompts = _Prompts(vocabulary, secrets.token_hex(8) if salt is None else salt)
    first = Exchange(prompt=prompts.next(_PROMPT_TOKENS), output_tokens=_OUTPUT_TOKENS)
    failure = await backend.perform(first)
    if failure is not None:
        _judge(failure, api, notes, " ".join(said[:1]))
        return
    for text in _lengths(first):
        notes.add(text)
    if first.whole_output_ids is None:
        notes.add(NO_IDS)
    if first.cached_tokens is None and not await _repeat_shows(backend, prompts.next(_LONG_PROMPT_TOKENS)):
        notes.add(NO_CACHED)


def check_context(calls: Sequence[Call], server: Server, notes: Notes) -> None:
    """Note how many calls are longer than the server's context, where it tells that."""
    if server.context_tokens is None:
        return
    too_long = sum(call.prompt_tokens + call.completion_tokens > server.context_tokens for call in calls)
    if too_long:
        notes.add(f"{too_long} calls are longer than the server's context of {server.context_tokens} tokens: they fail")


def _judge(failure: Failure, api: str, notes: Notes, said: str) -> None:
    why = f"{failure.kind.value}{': ' if said else ''}{said}"
    if failure.kind in _NOT_TAKEN:
        raise IdsRefused(
            f"the server takes no prompts of token ids with --api {api} ({why}): "
            "replay with --api chat, or see rotoscope doctor",
            kind=failure.kind,
        )
    if failure.kind in _KEYS:
        raise RunFailed(
            f"the server refuses requests ({why}): name the environment variable that holds the key with --api-key-env"
        )
    notes.hear(failure.kind, said)
    notes.add(f"a first request of a few tokens failed: {failure.kind.value}")


def _lengths(exchange: Exchange) -> list[str]:
    found = []
    if exchange.prompt_tokens not in (None, _PROMPT_TOKENS):
        found.append(
            f"the server counts {exchange.prompt_tokens} tokens in a prompt of {_PROMPT_TOKENS} ids: "
            "it does not take them as they are"
        )
    if exchange.counted_tokens not in (None, _OUTPUT_TOKENS):
        found.append(
            f"{_OUTPUT_TOKENS} output tokens were asked for and {exchange.counted_tokens} came: "
            "answers will not have the recorded lengths"
        )
    return found


async def _repeat_shows(backend: Backend, prompt: bytes) -> bool:
    """Return whether the server tells cached tokens where there are some; older vLLM tells no zeros."""
    exchange = None
    for _ in range(2):
        exchange = Exchange(prompt=prompt, output_tokens=1)
        if await backend.perform(exchange) is not None:
            return True  # nothing is known
    return exchange is not None and exchange.cached_tokens is not None


class _Prompts:
    """Prompts of this run's check; another salt gives others."""

    def __init__(self, vocabulary: Vocabulary, salt: str) -> None:
        key = int.from_bytes(sha256(f"preflight {salt}".encode()).digest()[:16], "little")
        self._random = np.random.Generator(np.random.Philox(key=key))
        self._vocabulary = vocabulary

    def next(self, tokens: int) -> bytes:
        """Return a prompt; its first id is the one below those of the run."""
        ids = self._random.integers(self._vocabulary.low, self._vocabulary.high, tokens)
        ids[0] = max(self._vocabulary.low - 1, 0)
        return orjson.dumps(ids.tolist())
