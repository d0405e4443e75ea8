"""Read the events of one streamed completion into its exchange.

An event is parsed where it may hold anything but tokens. Of the others only the ids are cut out, where they stand in
the engine's own way of writing; where the server returns no ids, it matters only that they arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson

from rotoscope.replayer.backends.engines import Choice, Engine
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind, failure_in_stream

_DONE = b"[DONE]"
_ERROR = b'"error"'
_GOES_ON = b'"finish_reason":null'
_PROMPT_IDS = b'"prompt_token_ids":['
_LARGE_EVENT_BYTES = 4096
_HELD_EVENTS = 4
"""More than those before [DONE] that may hold finish reason and usage."""
_LAST_EVENTS = 3
"""Finish reason, usage and [DONE]."""
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
        self._engine = engine
        self._ids_pattern = engine.ids_pattern
        self._most_events = 4 * exchange.output_tokens + 64
        self._events = 0
        self._skims = False
        self._holds = False
        self._held: deque[tuple[bytes, float]] = deque()
        self._skimmed: list[bytes] = []
        self._has_finish_reason = False
        self.is_whole = False

    def take(self, payloads: Sequence[bytes], now: float) -> None:
        """Read what arrived at `now`; raise AnswerFailed for an error event, for no JSON and for no end."""
        self._events += len(payloads)
        if self._events > self._most_events:
            raise _malformed("the answer does not end")
        index, has_skimmed = 0, False
        while index < len(payloads) and not self.is_whole:
            if self._skims and not has_skimmed:
                index += self._skim(payloads[index:], now)
                has_skimmed = True
            else:
                self._take_one(payloads[index], now)
                index += 1

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

    def keep_what_came(self) -> None:
        """Read what was put off of an answer that ended early, as far as it can be read."""
        with suppress(AnswerFailed):
            self._settle()

    def _settle(self) -> None:
        """Read what was put off."""
        while self._held:
            self._read(*self._held.popleft())
        if self._skimmed:
            ids, self._skimmed = b"[" + b",".join(self._skimmed) + b"]", []
            self._exchange.output_ids += _checked_ids(_parsed_ids(ids))

    def _end(self, now: float) -> None:
        self._settle()
        self._exchange.ended_s = now
        self.is_whole = True

    def _take_one(self, payload: bytes, now: float) -> None:
        if payload == _DONE:
            self._end(now)
        elif self._holds and _ERROR not in payload:
            self._hold(payload, now)
        else:
            self._read(payload, now)

    def _hold(self, payload: bytes, now: float) -> None:
        """Put an event off that may be one of the last; one that was not has brought a token."""
        self._held.append((payload, now))
        if len(self._held) > _HELD_EVENTS:
            self._exchange.note_tokens(1, self._held.popleft()[1])

    def _skim(self, payloads: Sequence[bytes], now: float) -> int:
        """Cut the ids out of leading events that hold nothing else of use; return how many events that were.

        All of them are searched at once, which costs a third of parsing them. No text can look like a key of the
        event: quotes within strings are escaped.
        """
        stop = len(payloads)
        while stop > max(0, len(payloads) - _LAST_EVENTS) and _GOES_ON not in payloads[stop - 1]:
            stop -= 1
        together = b"".join(payloads[:stop])
        ids: list[bytes] = self._ids_pattern.findall(together) if self._ids_pattern else []
        if not ids or len(ids) != stop or together.count(_GOES_ON) != stop:
            return 0
        self._skimmed += filter(None, ids)
        self._exchange.last_token_s = now
        self._exchange.token_events += len(ids)
        return len(ids)

    def _read(self, payload: bytes, now: float) -> None:
        event = _parsed(payload)
        if event.get("error") or event.get("object") == "error":
            raise AnswerFailed(*failure_in_stream(payload))
        choices = event.get("choices")
        if isinstance(choices, list):
            tokens = sum(self._read_choice(choice) for choice in choices if isinstance(choice, dict))
            if tokens:
                self._note_tokens(tokens, now)
        self._read_usage(event)

    def _note_tokens(self, tokens: int, now: float) -> None:
        exchange = self._exchange
        exchange.note_tokens(tokens, now)
        if exchange.on_delivery is None and exchange.token_events == 1:
            self._skims = bool(exchange.output_ids and self._ids_pattern)
            self._holds = not exchange.output_ids

    def _read_choice(self, choice: Choice) -> int:
        """Return how many tokens a choice brings."""
        reason = choice.get("finish_reason")
        if reason is not None:
            if reason in _GIVEN_UP:
                raise AnswerFailed(Failure(FailureKind.ERROR_IN_STREAM, 200), f"finish reason {reason!r}")
            self._has_finish_reason = True
        ids = self._engine.read_ids(choice)
        if ids:
            if self._skimmed:
                self._settle()
            self._exchange.output_ids += _checked_ids(ids)
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


def _parsed_ids(text: bytes) -> list[int]:
    try:
        ids: list[int] = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise _malformed("the token ids of an event are no list of numbers") from None
    return ids


def _checked_ids(ids: list[Any]) -> list[int]:
    if any(type(token) is not int or not 0 <= token <= _LARGEST_ID for token in ids):
        raise _malformed("a token id is no number")
    return ids


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
