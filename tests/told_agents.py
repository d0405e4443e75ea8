"""An agent that tells what it does itself, in front of a recorder; times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO

import orjson
from chat_wire import PATH, Message, assistant, result, system, tool_call, usage, user

from rotoscope.recorder import Exchange, Recorder
from rotoscope.recorder.building import build_trace
from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark
from rotoscope.replayer.schedule import plan_session
from rotoscope.traces import Trace
from rotoscope.traces.journal_files import JournalWriter, parse_journal

START = [system("s" * 400), user("a")]


@dataclass
class ToldAgent:
    """Calls, and marks between them."""

    has_headers: bool = True
    """Whether its client says who makes a call."""
    journal: BytesIO = field(default_factory=BytesIO)
    answers: int = 0
    histories: dict[str, list[Message]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = Recorder(JournalWriter(self.journal))

    def ask(self, thread: str, start: float, *, parent: str = "", results: int = 0) -> Exchange:
        """Ask with all that was said on a thread, and results of the last tools."""
        headers = {"x-rotoscope-branch": thread} | ({"x-rotoscope-parent": parent} if parent else {})
        history = self.histories.setdefault(thread, [*START, user(thread)])
        asked = f"{len(history)} {thread}"
        history += [result(f"{index} {asked}", "x") for index in range(results)] or [user("go on")]
        body = orjson.dumps({"model": "m", "messages": history})
        return self.recorder.request(PATH, body, at_s=100.0 + start, headers=headers if self.has_headers else {})

    def answer(self, thread: str, exchange: Exchange, end: float, *, tools: Sequence[str] = ()) -> None:
        """Let the answer come."""
        self.answers += 1
        asked = f"{len(self.histories[thread]) + 1} {thread}"
        calls = [tool_call(f"{index} {asked}", name) for index, name in enumerate(tools)]
        message = assistant(f"answer {self.answers}", calls=calls)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}
        counts = usage(len(str(self.histories[thread])), 7)
        exchange.response(200, at_s=100.0 + end, content_type="application/json")
        exchange.chunk(orjson.dumps({"choices": [choice], "usage": counts}), at_s=100.0 + end)
        exchange.end(at_s=100.0 + end)
        self.histories[thread].append(message)

    def call(
        self, thread: str, start: float, end: float, *, parent: str = "", tools: Sequence[str] = (), results: int = 0
    ) -> None:
        """Make a call that nothing else happens in."""
        self.answer(thread, self.ask(thread, start, parent=parent, results=results), end, tools=tools)

    def tell(self, *marks: Mark) -> None:
        self.recorder.mark(marks)

    def tool(self, thread: str, name: str, start: float, end: float) -> None:
        self.tell(ToolMark(name, thread, 100.0 + start, 100.0 + end))

    def fork(self, parent: str, region: str, at: float, *threads: str) -> None:
        self.tell(*(BranchMark(thread, parent, region, 100.0 + at) for thread in threads))

    def join(self, region: str, at: float) -> None:
        self.tell(JoinMark(region, 100.0 + at))

    def close(self) -> Trace:
        """Return the trace; the journal gives the same, and it can be replayed."""
        trace = self.recorder.close()
        assert trace is not None
        assert self.recorder.trouble == []
        assert build_trace(parse_journal(self.journal.getvalue())).trace == trace
        plan_session(trace)
        return trace
