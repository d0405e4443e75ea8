"""An agent and its server on the two sides of a recorder, without a wire: say what is sent, when, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import orjson

from rotoscope.recorder import Exchange, Recorder
from rotoscope.recorder.counting import Tally
from rotoscope.recorder.token_counters import TokenCounter
from rotoscope.traces import Call, Trace
from rotoscope.traces.journal import Journal
from rotoscope.traces.journal_files import JournalWriter, parse_journal

PATH = "/v1/chat/completions"
Message = dict[str, Any]


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str = "", *, calls: Sequence[Message] = (), thinking: str = "") -> Message:
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = list(calls)
    if thinking:
        message["reasoning_content"] = thinking
    return message


def tool_call(call_id: str, name: str = "read", arguments: str = "{}") -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def tool(name: str) -> Message:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def sse(*events: Any) -> bytes:
    """Return events as they are on the wire; text goes as it is."""
    return b"".join(b"data: " + (e.encode() if isinstance(e, str) else orjson.dumps(e)) + b"\n\n" for e in events)


def delta(fields: Message, *, index: int = 0, finish: str | None = None) -> Message:
    return {"choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


def usage(prompt: int, completion: int, **details: int) -> Message:
    """Return a usage as servers report it; details are cached and reasoning."""
    report: Message = {"prompt_tokens": prompt, "completion_tokens": completion}
    if "cached" in details:
        report["prompt_tokens_details"] = {"cached_tokens": details["cached"]}
    if "reasoning" in details:
        report["completion_tokens_details"] = {"reasoning_tokens": details["reasoning"]}
    return report


@dataclass
class Wire:
    """A recorder with a journal in memory, and a clock that only tests move."""

    key: bytes | None = None
    campaign: str | None = None
    counter: TokenCounter | None = None
    """What counts the texts that the recorder hands out, when `count` is called."""
    now_s: float = 100.0
    journal: BytesIO = field(default_factory=BytesIO)

    def __post_init__(self) -> None:
        tokenizer = None if self.counter is None else self.counter.name
        self.recorder = Recorder(JournalWriter(self.journal), key=self.key, campaign=self.campaign, tokenizer=tokenizer)

    def ask(self, messages: Sequence[Message], *, at: float | None = None, **fields: Any) -> Exchange:
        """Send a request; `fields` are those of its body."""
        if at is not None:
            self.now_s = 100.0 + at
        body = orjson.dumps({"model": "m", "messages": list(messages)} | fields)
        return self.recorder.request(PATH, body, at_s=self.now_s)

    def answer(
        self,
        exchange: Exchange,
        *messages: Message,
        counts: Message | None = None,
        at: float | None = None,
        **fields: Any,
    ) -> None:
        """Let a whole answer come; one message for each choice."""
        if at is not None:
            self.now_s = 100.0 + at
        choices = [
            {"index": i, "message": m, "finish_reason": "tool_calls" if m.get("tool_calls") else "stop"}
            for i, m in enumerate(messages)
        ]
        body = {"choices": choices} | ({"usage": counts} if counts else {}) | fields
        exchange.response(200, at_s=self.now_s, content_type="application/json")
        exchange.chunk(orjson.dumps(body), at_s=self.now_s)
        exchange.end(at_s=self.now_s)

    def call(
        self,
        messages: Sequence[Message],
        answer: Message,
        *,
        counts: Message | None = None,
        start: float | None = None,
        end: float | None = None,
        **fields: Any,
    ) -> list[Message]:
        """Make one call and return the messages with its answer behind them."""
        self.answer(self.ask(messages, at=start, **fields), answer, counts=counts, at=end)
        return [*messages, answer]

    def count(self) -> None:
        """Count all texts that wait for it."""
        assert self.counter is not None
        tally = Tally(self.counter)
        while texts := self.recorder.uncounted():
            self.recorder.counted(tally.count(texts))

    def refuse(self, messages: Sequence[Message], *, status: int = 429, at: float | None = None, **fields: Any) -> None:
        """Make one request that the server refuses."""
        exchange = self.ask(messages, at=at, **fields)
        exchange.response(status, at_s=self.now_s, content_type="application/json")
        exchange.chunk(b'{"error":{"message":"no"}}', at_s=self.now_s)
        exchange.end(at_s=self.now_s)

    def written(self) -> Journal:
        """Return what is in the journal so far."""
        return parse_journal(self.journal.getvalue())

    def close(self) -> Trace:
        """End the recording without trouble and return its trace."""
        trace = self.recorder.close()
        assert trace is not None, self.recorder.trouble
        return trace

    def calls(self) -> list[Call]:
        """End the recording and return its calls."""
        return list(self.close().calls())


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cut bytes at some places."""
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]
