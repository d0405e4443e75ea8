"""Ask a server for completions of random token ids, and read of the answer all that a replay will rely on."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import orjson

from rotoscope.replayer.backends.engines import ANY_ENGINE, Engine
from rotoscope.replayer.doctor.wire import Json, Reply, Wire
from rotoscope.replayer.failures import Failure, FailureKind, failure_in_stream
from rotoscope.replayer.tokens import Vocabulary

UsagePlace: TypeAlias = Literal["own event", "last token's event", "every event", "none"]


class CachedByCounters(Protocol):
    """Where cached tokens are known from, if not from the answers."""

    async def of_last(self, prompt_tokens: int) -> int | None:
        """Return the cached tokens of the last request, whose prompt had so many; None where nothing is known."""
        ...


@dataclass(slots=True)
class Answered:
    """One streamed completion, as it was answered."""

    reply: Reply
    ids: list[int] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    tokens_of_events: list[int] = field(default_factory=list)
    """Tokens of each event that brought any, 1 where it brought text without ids."""
    usage_place: UsagePlace = "none"

    @property
    def is_ok(self) -> bool:
        return self.reply.is_ok

    @property
    def why(self) -> str:
        return self.reply.why

    @property
    def tokens(self) -> int | None:
        """Return the length of the output by usage, else by ids; None where the server tells neither."""
        return len(self.ids) or None if self.completion_tokens is None else self.completion_tokens


class Asker:
    """Sends completions to one server, all with prompts of their own, and keeps count of what they used."""

    def __init__(
        self,
        wire: Wire,
        *,
        model: str,
        vocabulary: Vocabulary,
        engine: Engine = ANY_ENGINE,
    ) -> None:
        self.wire = wire
        self.model = model
        self.vocabulary = vocabulary
        self.engine = engine
        self.asks_for_ids = True
        self.prompt_tokens = 0
        """Of all answers, by usage; so are the cached ones."""
        self.cached_tokens = 0
        self.uncounted = 0
        """Requests of which the server did not tell what they used."""
        self.tells_cached = False
        """Whether any answer told cached tokens."""
        self.counters: CachedByCounters | None = None
        """Tells the cached tokens of answers that do not tell them; None leaves them unknown."""
        self._random = np.random.default_rng(secrets.randbits(128))

    def count_anew(self) -> None:
        """Forget what was used so far."""
        self.prompt_tokens = self.cached_tokens = self.uncounted = 0

    def fresh(self, tokens: int) -> list[int]:
        """Return random ids that no other prompt began with."""
        ids: list[int] = self._random.integers(self.vocabulary.low, self.vocabulary.high, tokens).tolist()
        return ids

    def parting(self, ids: Sequence[int], shared: int, tokens: int) -> list[int]:
        """Return a prompt that begins with the first `shared` of `ids` and with no more of them."""
        own = self.fresh(tokens - shared)
        if shared < len(ids) and own[0] == ids[shared]:
            own[0] = self.vocabulary.low + (own[0] - self.vocabulary.low + 1) % self.vocabulary.size
        return [*ids[:shared], *own]

    async def complete(self, prompt: Sequence[int], tokens: int, *, pinned: bool = True, **more: object) -> Answered:
        """Ask for `tokens` tokens; `pinned` says so as a replay does, with `ignore_eos` and `min_tokens`."""
        body: dict[str, object] = {
            "model": self.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "max_tokens": tokens,
            **({"ignore_eos": True, "min_tokens": tokens} if pinned else {}),
            **(self.engine.asks_for_ids if self.asks_for_ids else {}),
            **more,
            "prompt": prompt,
        }
        answered = read_answer(await self.wire.post(self.wire.api / "completions", body), self.engine)
        if answered.prompt_tokens is None:
            self.uncounted += 1
        self.prompt_tokens += answered.prompt_tokens or 0
        self.cached_tokens += answered.cached_tokens or 0
        self.tells_cached = self.tells_cached or answered.cached_tokens is not None
        if self.counters is not None and answered.is_ok and answered.cached_tokens is None:
            answered.cached_tokens = await self.counters.of_last(len(prompt))
        return answered


def read_answer(reply: Reply, engine: Engine) -> Answered:
    """Read the events of a completion; an error among them, or an end that is none, fails its reply."""
    answered = Answered(reply)
    if not reply.is_ok:
        return answered
    if reply.content_type != "text/event-stream":
        _fail(reply, FailureKind.MALFORMED, "the answer is no event stream")
        return answered
    for event in reply.events:
        if event.get("error") or event.get("object") == "error":
            reply.failure, reply.message = _error(event)
            return answered
        _read_event(event, engine, answered)
    if not reply.is_done and answered.finish_reason is None:
        _fail(reply, FailureKind.CUT_STREAM, "the answer ends without its last event")
    return answered


def _read_event(event: Json, engine: Engine, answered: Answered) -> None:
    choices = [choice for choice in _list(event.get("choices")) if isinstance(choice, dict)]
    tokens = sum(_read_choice(event, choice, engine, answered) for choice in choices)
    if tokens:
        answered.tokens_of_events.append(tokens)
    usage = event.get("usage")
    if isinstance(usage, dict):
        _read_usage(usage, answered)
        if answered.usage_place != "none":
            answered.usage_place = "every event"
        else:
            answered.usage_place = "last token's event" if choices else "own event"


def _read_choice(event: Json, choice: Json, engine: Engine, answered: Answered) -> int:
    reason = choice.get("finish_reason")
    if isinstance(reason, str):
        answered.finish_reason = reason
    ids = [token for token in engine.read_ids(event, choice) or [] if type(token) is int and token >= 0]
    answered.ids += ids
    return len(ids) or (1 if choice.get("text") or _says(choice.get("delta")) else 0)


def _says(delta: object) -> bool:
    """Whether a piece of a chat's answer brings text, spoken or thought."""
    return isinstance(delta, dict) and any(delta.get(key) for key in ("content", "reasoning_content", "reasoning"))


def _read_usage(usage: Json, answered: Answered) -> None:
    answered.prompt_tokens = _count(usage.get("prompt_tokens"))
    answered.completion_tokens = _count(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details")
    answered.cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else None


def _error(event: Json) -> tuple[Failure, str]:
    return failure_in_stream(orjson.dumps(event))


def _fail(reply: Reply, kind: FailureKind, message: str) -> None:
    reply.failure, reply.message = Failure(kind, 200), message


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
