"""The recorder: calls as they happen in, journal records out, a trace at the end; it does no I/O but the journal's.

Nothing it does can hurt the agent: every method is guarded. Where something goes wrong the bytes are forwarded as they
came, the recording of that call stops, and `trouble` says so once. Text lives in RAM until its call is closed; the key
lives in RAM until the recorder is closed.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.dialects import chat
from rotoscope.recorder.growing_bodies import GrowingBodies
from rotoscope.recorder.hashing import KeyedHash, new_key
from rotoscope.recorder.parts import KnownParts
from rotoscope.recorder.sse import EventFilter
from rotoscope.recorder.token_ids import MeasuredPrompts
from rotoscope.recorder.usage import Usage
from rotoscope.traces.journal import (
    CallEnded,
    CallMeasured,
    CallOpened,
    Journal,
    JournalHeader,
    JournalRecord,
    JournalWriter,
)
from rotoscope.traces.model import FinishReason, Trace

_log = logging.getLogger(__name__)

_OTHER_DIALECTS = {
    "/completions": "text completions",
    "/responses": "responses",
    "/messages": "messages",
    "/embeddings": "embeddings",
}
_LARGEST_ANSWER_BYTES = 64 << 20
"""An answer that is longer than this in one piece is forwarded, but not recorded."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for, without its text."""

    domain: int
    head: int
    """The last part of its prompt."""
    choices: int
    is_stream: bool
    is_without_usage: bool
    """A stream that does not ask for usage."""
    has_stream_options: bool


class Recorder:
    """Record one run."""

    def __init__(self, journal: JournalWriter, *, key: bytes | None = None, campaign: str | None = None) -> None:
        if campaign is not None and not re.fullmatch("[0-9a-f]{8,32}", campaign):
            raise ValueError("a campaign is named by 8 to 32 hexadecimal digits")
        self._journal: JournalWriter | None = journal
        self._trouble: dict[str, None] = {}
        self._header = JournalHeader(
            trace_id=secrets.token_hex(8), campaign=campaign or secrets.token_hex(8), is_named=campaign is not None
        )
        self._records: list[JournalRecord] = []
        self._hash: KeyedHash | None = KeyedHash(key or new_key())
        self._parts = KnownParts(self._hash)
        self._bodies: GrowingBodies[_Asked] = GrowingBodies()
        self._domains: dict[bytes, int] = {}
        self._tools: dict[bytes, int] = {}
        self._measured: dict[int, MeasuredPrompts] = {}
        self._calls = 0
        self._requests = 0
        self._start_s: float | None = None
        self.passed = 0
        """Requests that were forwarded unrecorded."""
        self._begin()

    def __repr__(self) -> str:
        return f"Recorder({self._calls} calls)"

    @property
    def trouble(self) -> list[str]:
        """What could not be recorded, each once, without content."""
        return list(self._trouble)

    def request(self, path: str, body: bytes, *, at_s: float, headers: Mapping[str, str] = {}) -> Exchange:
        """Take in a request as it arrives; `at_s` is monotonic. Never raises."""
        path = path.partition("?")[0].rstrip("/")
        if not path.endswith(chat.PATH) or self._hash is None:
            return self._pass(path, body)
        try:
            return self._open(body, at_s)
        except chat.NotAChat as error:
            self._warn(f"a chat request was not recorded: {error}")
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._report("a request", error)
        self.passed += 1
        return Exchange(self, body)

    def close(self) -> Trace | None:
        """End the recording, forget the key and build the trace; None when no call was seen."""
        if self._hash is None:
            return None
        self._hash = None
        self._parts.forget()
        self._bodies.forget()
        self._domains.clear()
        self._tools.clear()
        self._measured.clear()
        if self._journal is not None:
            try:
                self._journal.close()
            except OSError as error:
                self._warn(f"the journal could not be closed ({type(error).__name__})")
        journal = Journal(self._header, tuple(self._records))
        self._records.clear()
        try:
            built = build_trace(journal)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._warn(f"the trace could not be built ({type(error).__name__}): 'rotoscope recover' tells why")
            return None
        if built.refused:
            self._warn(f"{built.refused} requests that the server refused are not in the trace")
        return built.trace

    def _begin(self) -> None:
        assert self._journal is not None
        try:
            self._journal.begin(self._header)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._lose_journal(error)

    def _pass(self, path: str, body: bytes) -> Exchange:
        self.passed += 1
        for ending, dialect in _OTHER_DIALECTS.items():
            if path.endswith(ending) and body:
                self._warn(f"a request in a dialect that is not recorded was passed on: {dialect}")
        return Exchange(self, body)

    def _open(self, body: bytes, at_s: float) -> Exchange:
        asked = self._read(body)
        if self._start_s is None:
            self._start_s = at_s
        number = self._requests if asked.choices > 1 else None
        calls = range(self._calls, self._calls + asked.choices)
        at_ms = self._ms(at_s)
        opened = [
            CallOpened(call=call, domain=asked.domain, head=asked.head, request=number, at_ms=at_ms) for call in calls
        ]
        upstream = (
            chat.with_usage(body, has_stream_options=asked.has_stream_options) if asked.is_without_usage else body
        )
        self._calls += asked.choices
        self._requests += 1
        self._write(opened)
        return RecordedExchange(self, upstream, asked=asked, calls=calls, at_s=at_s)

    def _read(self, body: bytes) -> _Asked:
        """Read a request: only what is new in it where it goes on from an earlier one."""
        match = self._bodies.match(body)
        if match is not None:
            known, messages = match
            head = self._parts.behind_messages(known.value.head, chat.only_messages(messages))
            asked = replace(known.value, head=head)
            self._bodies.go_on(known, body, asked)
            return asked
        request = chat.parse_request(body)
        digest = self._digest(request.domain)
        asked = _Asked(
            domain=self._domains.setdefault(digest, len(self._domains)),
            head=self._head_of(request, digest),
            choices=request.choices,
            is_stream=request.is_stream,
            is_without_usage=request.is_stream and not request.asks_for_usage,
            has_stream_options=request.has_stream_options,
        )
        if chat.leading_messages(request.messages) < len(request.messages):
            self._bodies.learn(body, request.body, asked)
        return asked

    def _head_of(self, request: chat.ChatRequest, domain: bytes) -> int:
        """Return the last part of a prompt: system messages, then tools, then the other messages, in one domain."""
        leading = chat.leading_messages(request.messages)
        before: int | bytes = domain
        if leading:
            before = self._parts.behind_messages(before, request.messages[:leading])
        if request.tools is not None:
            before = self._parts.behind(before, request.tools)
        if leading == len(request.messages):
            assert isinstance(before, int)
            return before
        return self._parts.behind_messages(before, request.messages[leading:])

    def _write(self, records: Sequence[JournalRecord]) -> None:
        """Keep records and write them to the journal, the parts that they name first."""
        records = [*self._parts.take_fresh(), *records]
        self._records.extend(records)
        if self._journal is None or not records:
            return
        try:
            self._journal.write(records)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._lose_journal(error)

    def _lose_journal(self, error: Exception) -> None:
        self._journal = None
        self._warn(f"the journal cannot be written ({type(error).__name__}): the recording goes on in memory")

    def _digest(self, data: bytes) -> bytes:
        assert self._hash is not None
        return self._hash.digest(data)

    def _ms(self, at_s: float) -> float:
        return max(0.0, round((at_s - (self._start_s or 0.0)) * 1000, 3))

    def _tool(self, name: str) -> int:
        return self._tools.setdefault(self._digest(name.encode()), len(self._tools) + 1)

    def _report(self, what: str, error: Exception) -> None:
        """Tell of a failure by its kind: the text of an exception may quote what was being read."""
        self._warn(f"{what} was not recorded, the recorder failed ({type(error).__name__})")

    def _warn(self, message: str) -> None:
        if message not in self._trouble:
            self._trouble[message] = None
            _log.warning("%s", message)


class Exchange:
    """One request and its answer; this one only forwards."""

    def __init__(self, recorder: Recorder, upstream_body: bytes) -> None:
        self._recorder = recorder
        self.upstream_body = upstream_body
        """What to send upstream."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def recorded(self) -> bool:
        """Whether this call goes into the trace."""
        return False

    def response(self, status: int, *, at_s: float, content_type: str = "") -> None:
        """Tell that the answer begins."""

    def chunk(self, data: bytes, *, at_s: float) -> bytes:
        """Take in bytes of the answer as they arrive and return those to forward."""
        return data

    def end(self, *, at_s: float) -> bytes:
        """Tell that the answer has ended and return the last bytes to forward."""
        return b""

    def cancelled(self, *, at_s: float) -> None:
        """Tell that the client hung up."""

    def failed(self, *, at_s: float) -> None:
        """Tell that the upstream broke off, or could not be reached."""

    def measured(self, ids: Sequence[int] | None) -> None:
        """Take in the token ids of the prompt, None when they cannot be had."""


class RecordedExchange(Exchange):
    """One request whose calls are recorded."""

    def __init__(
        self,
        recorder: Recorder,
        upstream_body: bytes,
        *,
        asked: _Asked,
        calls: range,
        at_s: float,
    ) -> None:
        super().__init__(recorder, upstream_body)
        self._asked = asked
        self._calls = calls
        self._at_s = at_s
        self._now_s = at_s
        self._status = 0
        self._answer: chat.ChatAnswer | None = chat.ChatAnswer([chat.Choice() for _ in calls])
        self._filter: EventFilter | None = None
        self._whole: list[bytes] = []
        self._whole_bytes = 0
        self._is_given_up = False

    @property
    def recorded(self) -> bool:
        return True

    def response(self, status: int, *, at_s: float, content_type: str = "") -> None:
        self._status = status
        kind = content_type.partition(";")[0].strip().lower()
        is_asked_for = self._asked.is_stream and status == 200 and not kind.endswith("json")
        if kind == "text/event-stream" or is_asked_for:
            self._filter = EventFilter(self._take, withholds=self._asked.is_without_usage)

    def chunk(self, data: bytes, *, at_s: float) -> bytes:
        if self._answer is None:
            return data
        self._now_s = at_s
        if self._filter is None:
            return self._keep(data)
        held = self._filter.held
        try:
            return self._filter.feed(data)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._give_up(error)
            return held + data

    def end(self, *, at_s: float) -> bytes:
        if self._answer is None:
            self._end_given_up(at_s)
            return b""
        held = self._filter.held if self._filter else b""
        try:
            self._now_s = at_s
            rest = self._filter.finish() if self._filter else b""
            self._close(at_s)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._give_up(error)
            self._end_given_up(at_s)
            return held
        return rest

    def cancelled(self, *, at_s: float) -> None:
        self._break_off(at_s, "cancelled")

    def failed(self, *, at_s: float) -> None:
        self._break_off(at_s, "error")

    def measured(self, ids: Sequence[int] | None) -> None:
        if not ids or self._recorder._hash is None:
            return
        try:
            self._recorder._write(self._measured(ids))
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._recorder._report("a measured prompt", error)

    def _measured(self, ids: Sequence[int]) -> list[CallMeasured]:
        prompts = self._recorder._measured.setdefault(self._asked.domain, MeasuredPrompts())
        of, tokens = prompts.add(self._calls[0], ids)
        first = CallMeasured(call=self._calls[0], of=of, tokens=tokens, prompt_tokens=len(ids))
        others = [
            CallMeasured(call=call, of=self._calls[0], tokens=len(ids), prompt_tokens=len(ids))
            for call in self._calls[1:]
        ]
        return [first, *others]

    def _take(self, data: bytes) -> bool:
        assert self._answer is not None
        return self._answer.take_event(data, self._now_s)

    def _keep(self, data: bytes) -> bytes:
        self._whole_bytes += len(data)
        if self._whole_bytes <= _LARGEST_ANSWER_BYTES:
            self._whole.append(data)
        return data

    def _break_off(self, at_s: float, reason: FinishReason) -> None:
        if self._answer is None:
            self._end_given_up(at_s)
            return
        try:
            self._close(at_s, None if self._answer.is_done else reason)  # who leaves after the end has it all
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._give_up(error)
            self._end_given_up(at_s)

    def _give_up(self, error: Exception) -> None:
        self._forget()
        self._is_given_up = True
        self._recorder._report("a call", error)

    def _end_given_up(self, at_s: float) -> None:
        """Let calls end of whose answer nothing is known: those that never end run beside all that follows."""
        if not self._is_given_up or self._recorder._hash is None:
            return
        self._is_given_up = False
        try:
            at_ms = self._recorder._ms(at_s)
            self._recorder._write(
                [CallEnded(call=x, at_ms=at_ms, finish_reason="unknown", status=self._status) for x in self._calls]
            )
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._recorder._report("a call", error)

    def _forget(self) -> None:
        self._answer = None
        self._filter = None
        self._whole.clear()

    def _close(self, at_s: float, reason: FinishReason | None = None) -> None:
        answer = self._answer
        assert answer is not None
        if self._filter is None and reason is None:
            answer.take_whole(b"".join(self._whole), self._now_s)
        self._forget()
        if answer.unread:
            self._recorder._warn("part of an answer is no JSON and was not recorded")
        if self._recorder._hash is not None:
            self._recorder._write(self._ended(answer, at_s, reason))

    def _ended(self, answer: chat.ChatAnswer, at_s: float, reason: FinishReason | None) -> list[JournalRecord]:
        parts = [choice.sent_back() for choice in answer.choices]
        usage = answer.usage or Usage()
        shares = _shares(usage.completion_tokens, [part.text_bytes + part.reasoning_bytes for part in parts])
        records: list[JournalRecord] = []
        for index, (choice, part, share) in enumerate(zip(answer.choices, parts, shares, strict=True)):
            output_bytes = part.text_bytes + part.reasoning_bytes
            known = self._recorder._parts.behind(self._asked.head, part) if output_bytes else None
            is_split = len(parts) > 1
            records.append(
                CallEnded(
                    call=self._calls[index],
                    at_ms=self._recorder._ms(at_s),
                    finish_reason=reason or self._finish_reason(answer, choice),
                    status=self._status,
                    ttft_ms=self._since_request_ms(choice.first_at_s),
                    prompt_tokens=usage.prompt_tokens,
                    completion_tokens=share,
                    reasoning_tokens=None if is_split else usage.reasoning_tokens,
                    cached_tokens=None if index else usage.cached_tokens,
                    output_bytes=output_bytes,
                    reasoning_bytes=part.reasoning_bytes,
                    alike_bytes=choice.alike_bytes(),
                    chunks=choice.chunks,
                    answer=known,
                    tools=tuple(self._recorder._tool(name) for name in choice.tool_names),
                    is_split=is_split,
                )
            )
        return records

    def _finish_reason(self, answer: chat.ChatAnswer, choice: chat.Choice) -> FinishReason:
        if answer.is_error or self._status >= 400:
            return "error"
        if choice.finish_reason == "unknown" and not answer.is_done:
            return "error"
        return choice.finish_reason

    def _since_request_ms(self, at_s: float | None) -> float | None:
        return None if at_s is None else max(0.0, round((at_s - self._at_s) * 1000, 3))


def _shares(total: int | None, sizes: list[int]) -> list[int | None]:
    """Share out a sum of tokens by size; the shares add up."""
    if total is None or len(sizes) == 1:
        return [total] * len(sizes)
    weights = [size + 1 for size in sizes]
    shares: list[int | None] = []
    left, left_weight = total, sum(weights)
    for weight in weights:
        share = round(left * weight / left_weight)
        shares.append(share)
        left, left_weight = left - share, left_weight - weight
    return shares
