"""Read the events of one streamed completion into its exchange.

Every event is parsed while the server returns ids or somebody waits for a number of tokens. Otherwise only the first
tokens and the last few events are: of the rest it matters that they arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import orjson

from rotoscope.replayer.backends.engines import Choice, Engine
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind, failure_in_stream

_DONE = b"[DONE]"
_ERROR = b'"error"'
_PROMPT_IDS = b'"prompt_token_ids":['
_LARGE_EVENT_BYTES = 4096
_HELD_EVENTS = 4
"""Finish reason and usage stand in the last two or three events."""
_GIVEN_UP = ("error", "abort")
"""Finish reasons of vLLM and SGLang for a request that they stopped themselves."""
_LARGEST_ID = 2**32 - 1


class AnswerFailed(Exception):
    """Carry a failure, and the server's message to be shown and forgotten, out of the reading of an answer."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(failure.kind.value)
        self.failure = failure
        self.message = message


class Answer:
    """Take the payloads of an answer as they arrive; `is_whole` once its last event was among them."""

    def __init__(self, exchange: Exchange, engine: Engine) -> None:
        self._exchange = exchange
        self._read_ids = engine.read_ids
        self._parses_all = True
        self._held: deque[tuple[bytes, float]] = deque()
        self._events = 0
        self._most_events = 4 * exchange.output_tokens + 64
        self._has_finish_reason = False
        self.is_whole = False

    def take(self, payloads: Sequence[bytes], now: float) -> None:
        """Read what arrived at `now`; raise AnswerFailed for an error event, for no JSON and for no end."""
        self._events += len(payloads)
        if self._events > self._most_events:
            raise _malformed("the answer does not end")
        for payload in payloads:
            if payload == _DONE:
                return self._end(now)
            if self._parses_all or _ERROR in payload:
                self._read(payload, now)
            else:
                self._hold(payload, now)
        return None

    def finish(self, rest: Sequence[bytes], now: float) -> None:
        """Take what was left at the end of the response; raise AnswerFailed unless the answer is whole all the same."""
        try:
            self.take(rest, now)
            self._settle()
        except AnswerFailed as failed:
            if failed.failure.kind is not FailureKind.MALFORMED:
                raise
            raise _cut() from None
        if not self.is_whole:
            if not self._has_finish_reason:
                raise _cut()
            self._end(now)

    def _hold(self, payload: bytes, now: float) -> None:
        self._held.append((payload, now))
        if len(self._held) > _HELD_EVENTS:
            self._exchange.note_tokens(1, self._held.popleft()[1])

    def _settle(self) -> None:
        while self._held:
            self._read(*self._held.popleft())

    def _end(self, now: float) -> None:
        self._settle()
        if any(type(token) is not int or not 0 <= token <= _LARGEST_ID for token in self._exchange.output_ids):
            raise _malformed("a token id is no number")
        self._exchange.ended_s = now
        self.is_whole = True

    def _read(self, payload: bytes, now: float) -> None:
        event = _parsed(payload)
        if event.get("error") or event.get("object") == "error":
            raise AnswerFailed(*failure_in_stream(payload))
        choices = event.get("choices")
        if isinstance(choices, list):
            tokens = sum(self._read_choice(choice) for choice in choices if isinstance(choice, dict))
            if tokens:
                self._exchange.note_tokens(tokens, now)
                self._parses_all = bool(self._exchange.output_ids) or self._exchange.on_delivery is not None
        self._read_usage(event)

    def _read_choice(self, choice: Choice) -> int:
        """Return how many tokens a choice brings."""
        reason = choice.get("finish_reason")
        if reason is not None:
            if reason in _GIVEN_UP:
                raise AnswerFailed(Failure(FailureKind.ERROR_IN_STREAM, 200), f"finish reason {reason!r}")
            self._has_finish_reason = True
        ids = self._read_ids(choice)
        if ids:
            self._exchange.output_ids.extend(ids)
            return len(ids)
        return 1 if choice.get("text") else 0

    def _read_usage(self, event: dict[str, Any]) -> None:
        usage = event.get("usage")
        if not isinstance(usage, dict):
            return
        exchange = self._exchange
        exchange.prompt_tokens = _count(usage.get("prompt_tokens"))
        exchange.completion_tokens = _count(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        exchange.cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else None


def _parsed(payload: bytes) -> dict[str, Any]:
    if len(payload) > _LARGE_EVENT_BYTES:
        payload = _without_prompt_ids(payload)
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:
        raise _malformed("an event is no JSON") from None
    if not isinstance(event, dict):
        raise _malformed("an event is no JSON object")
    return event


def _without_prompt_ids(payload: bytes) -> bytes:
    """Cut out the prompt that vLLM and SGLang send back with the first token where ids are asked for."""
    start = payload.find(_PROMPT_IDS)
    end = payload.find(b"]", start)
    if start < 0 or end < 0:
        return payload
    return payload[: start + len(_PROMPT_IDS)] + payload[end:]


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _malformed(message: str) -> AnswerFailed:
    return AnswerFailed(Failure(FailureKind.MALFORMED, 200), message)


def _cut() -> AnswerFailed:
    return AnswerFailed(Failure(FailureKind.CUT_STREAM, 200), "the answer ends without its last event")
