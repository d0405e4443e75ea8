"""Read the events of one streamed answer into its exchange, in the grammar of its API.

An event that may hold anything but tokens is parsed when it comes. The others are put off, many are searched at once
for what they bring, and that is parsed when the answer has ended (measured: benchmarks/answer_events.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson

from rotoscope.replayer.backends.grammar import AnswerFailed, Event, Read, Skim, Told, Usage, malformed
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind, failure_in_stream
from rotoscope.replayer.stream import BORDER, EventReader, payloads

_DONE = b"[DONE]"
_PROMPT_IDS = b'"prompt_token_ids":['
_LARGE_EVENT_BYTES = 4096
_EVENT = b"data:"
_MOST_PUT_OFF_BYTES = 64 * 1024
_SMALL_EVENT_BYTES = 100
_GIVEN_UP = ("error", "abort", "failed", "cancelled")
"""Finish reasons for a request that the server stopped itself."""
_LARGEST_ID = 2**32 - 1
_KEEP_ALIVE = re.compile(rb'\s*\{\s*"type":\s*"(?:ping|keepalive)"')
_LONGEST_KEEP_ALIVE = 64


class Answer:
    """Take the bytes of an answer as they arrive; `is_whole` once its last event was among them."""

    def __init__(self, exchange: Exchange, read: Read) -> None:
        self._exchange = exchange
        self._read_event = read
        self._reader = EventReader()
        self._events_left = 4 * exchange.output_tokens + 64
        self._skim: Skim | None = None
        self._sought: re.Pattern[bytes] | None = None
        """Shows that more than reasoning comes; None once it has, and where nobody can tell."""
        self._mark = b""
        """The skim's, as this server writes it."""
        self._put_off: list[bytes] = []
        """Bytes that end with an event that seems to bring tokens and nothing else."""
        self._put_off_bytes = 0
        self._put_off_s = 0.0
        """When the last of them came."""
        self._skimmed: list[bytes] = []
        """What was cut out of such events."""
        self._has_finish_reason = False
        self.is_whole = False

    def take(self, data: bytes, now: float) -> bool:
        """Read what arrived at `now` and return whether there was an event in it that says more than "still there".

        Raises AnswerFailed for an error event, for no JSON and for an answer without an end, EndlessEvent for an event
        without one.
        """
        if self._skim is not None and data.rfind(self._mark) > data.rfind(_EVENT) and self._may_wait(data):
            self._put(data, now)
            return True
        self._read_put_off()
        events = self._reader.whole(data)
        return not self.is_whole and self._take(events, now)

    def finish(self, now: float) -> None:
        """Read what was left at the end of the response; raise AnswerFailed unless the answer is whole all the same."""
        try:
            self._read_put_off()
            self._take(self._reader.rest(), now)
            self._keep_skimmed()
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
            self._read_put_off()
        with suppress(AnswerFailed):
            self._keep_skimmed()

    def _put(self, data: bytes, now: float) -> None:
        """Put bytes off until there are many or others come."""
        self._put_off.append(data)
        self._put_off_bytes += len(data)
        self._put_off_s = self._exchange.last_token_s = now
        if self._put_off_bytes > min(_MOST_PUT_OFF_BYTES, _SMALL_EVENT_BYTES * self._events_left):
            self._read_put_off()

    def _read_put_off(self) -> None:
        if self._put_off:
            data, self._put_off = b"".join(self._put_off), []
            self._put_off_bytes = 0
            self._take(self._reader.whole(data), self._put_off_s)

    def _take(self, events: bytes, now: float) -> bool:
        """Read whole events and return whether one of them says more than "still there"."""
        at, has_skimmed, says_more = 0, False, False
        while at < len(events) and not self.is_whole:
            if self._skim and not has_skimmed:
                end = self._skim_leading(self._skim, events, at, now)
                says_more |= end > at
                has_skimmed = True
            else:
                border = events.find(BORDER, at)
                end = border + len(BORDER) if border >= 0 else len(events)  # more empty lines than one may follow
                for payload in payloads(events[at:end]):
                    says_more |= self._take_one(payload, now)
            at = end
        return says_more

    def _take_one(self, payload: bytes, now: float) -> bool:
        """Read one event and return whether it says more than "still there"."""
        if _is_keep_alive(payload):
            return False
        self._count(1)
        if payload == _DONE:
            self._end(now)
        else:
            self._read(payload, now)
        return True

    def _count(self, events: int) -> None:
        self._events_left -= events
        if self._events_left < 0:
            raise malformed("the answer does not end")

    def _end(self, now: float) -> None:
        self._keep_skimmed()
        self._exchange.ended_s = now
        self.is_whole = True

    def _skim_leading(self, skim: Skim, events: bytes, start: int, now: float) -> int:
        """Cut what the events from `start` on bring out of them, if all up to the last that brings tokens hold no more.

        All of them are searched at once, which costs less than parsing each. Returns where the first event begins that
        was not read.
        """
        last = events.rfind(self._mark, start)
        if last < 0:
            return start
        stop = events.index(BORDER, last) + len(BORDER)
        if self._sought is not None and self._sought.search(events, start, stop):
            return start
        found: list[bytes] = skim.pattern.findall(events, start, stop)
        count = len(found)
        lines = events.count(b"\n", start, events.index(BORDER, start) + len(BORDER))
        # each event has as many lines as the first: to count the borders costs as much as the search
        if events.count(self._mark, start, stop) != count or events.count(b"\n", start, stop) != count * lines:
            return start
        self._count(count)
        if skim.newest_only:
            self._skimmed = found[-1:]
        else:
            self._skimmed += filter(None, found)
        self._exchange.last_token_s = now
        self._exchange.token_events += count
        self._exchange.completion_tokens = None  # told before these tokens, if at all
        return stop

    def _keep_skimmed(self) -> None:
        if self._skimmed:
            assert self._skim is not None
            skimmed, self._skimmed = b"[" + b",".join(self._skimmed) + b"]", []
            self._keep(self._skim.read(_parsed_list(skimmed)))

    def _read(self, payload: bytes, now: float) -> None:
        event = _parsed(payload)
        if event.get("error") or event.get("object") == "error":
            raise AnswerFailed(*failure_in_stream(payload))
        self._keep_skimmed()
        told = self._read_event(event)
        if told.error is not None:
            raise AnswerFailed(*failure_in_stream(orjson.dumps({"error": told.error})))
        if told.finish_reason is not None:
            self._take_finish_reason(told.finish_reason)
        if told.tokens or told.ids:
            self._keep(told)
            self._exchange.completion_tokens = None  # told before this event, if at all
        if told.usage:
            self._take_usage(told.usage)
        if told.tokens:
            self._exchange.note_tokens(told.tokens, now, is_output=told.is_output)
            self._choose_skim(told.skim, payload)
        if told.is_last:
            self._end(now)

    def _choose_skim(self, skim: Skim | None, payload: bytes) -> None:
        """Skim what follows, if nobody waits for parts of it and it is written as the event that was just read."""
        self._skim = None
        if skim is not None and self._exchange.on_delivery is None:
            self._mark = skim.mark if skim.mark in payload else skim.spaced
            self._skim = skim if self._mark in payload else None
        self._sought = skim.output if skim is not None and self._exchange.first_output_s is None else None

    def _may_wait(self, data: bytes) -> bool:
        """Return whether nobody asks when which part of this came: not while the first that is no reasoning is awaited."""
        if self._sought is None:
            return True
        return data.endswith(BORDER) and self._reader.is_between_events and not self._sought.search(data)

    def _take_finish_reason(self, reason: str) -> None:
        if reason in _GIVEN_UP:
            raise AnswerFailed(Failure(FailureKind.ERROR_IN_STREAM, 200), f"finish reason {reason!r}")
        self._has_finish_reason = True

    def _keep(self, told: Told) -> None:
        exchange = self._exchange
        if told.ids:
            exchange.output_ids += _checked_ids(told.ids)
        if told.text:
            exchange.output_text += told.text
        if told.reasoning:
            exchange.reasoning_text += told.reasoning

    def _take_usage(self, usage: Usage) -> None:
        """Take the counts over; what an event does not tell stays as an earlier one told it."""
        exchange = self._exchange
        if usage.prompt_tokens is not None:
            exchange.prompt_tokens = usage.prompt_tokens
        if usage.completion_tokens is not None:
            exchange.completion_tokens = usage.completion_tokens
        if usage.cached_tokens is not None:
            exchange.cached_tokens = usage.cached_tokens


def _is_keep_alive(payload: bytes) -> bool:
    """Return whether an event says only that the server is still there."""
    return len(payload) <= _LONGEST_KEEP_ALIVE and bool(_KEEP_ALIVE.match(payload))


def _parsed(payload: bytes) -> Event:
    if len(payload) > _LARGE_EVENT_BYTES:
        payload = _without_prompt_ids(payload)
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:
        raise malformed("an event is no JSON") from None
    if not isinstance(event, dict):
        raise malformed("an event is no JSON object")
    return event


def _parsed_list(text: bytes) -> list[Any]:
    try:
        values: list[Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise malformed("the tokens of an event are no JSON") from None
    return values


def _checked_ids(ids: Sequence[Any]) -> list[int]:
    if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) > _LARGEST_ID:
        raise malformed("a token id is no number")
    return list(ids)


def _without_prompt_ids(payload: bytes) -> bytes:
    """Cut out the prompt that vLLM and SGLang send back with the first token where ids are asked for."""
    start = payload.find(_PROMPT_IDS)
    end = payload.find(b"]", start)
    if start < 0 or end < 0:
        return payload
    return payload[: start + len(_PROMPT_IDS)] + payload[end:]


def _cut() -> AnswerFailed:
    return AnswerFailed(Failure(FailureKind.CUT_STREAM, 200), "the answer ends without its last event")
