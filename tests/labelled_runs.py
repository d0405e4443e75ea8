"""Scripted runs of agents whose truth is known: which call goes on from which, and which agent began which.

A run is played on the two sides of a recorder, with one of eight kinds of ids: `none` (all tool calls have the same ids,
as some servers give them), `tools` (ids of their own), `session` (one session for all, as LiteLLM's header names it),
`response` (requests name the response that they go on from), `claude`, `codex` and `opencode` (headers of those clients)
and `own` (our headers). It is spoken in one of the APIs of `labelled_apis.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import orjson
from chat_wire import Message, Wire, assistant, result, sse, system, tool, tool_call, user
from labelled_apis import APIS, Api
from multidict import CIMultiDict

from rotoscope.recorder import Exchange
from rotoscope.recorder.building import build_trace
from rotoscope.traces import Call, Trace
from rotoscope.traces.journal import CallOpened, Journal

Ids: TypeAlias = Literal["none", "tools", "session", "response", "claude", "codex", "opencode", "own"]
IDS: tuple[Ids, ...] = get_args(Ids)
How: TypeAlias = Literal["done", "cancelled", "refused", "reset", "broken", "lost"]
TOOLS = [tool(f"tool_{x}") for x in range(6)]
NO_CALL = ("refused", "reset", "broken")
"""What is sent again at once, and then is an attempt."""


@dataclass(slots=True)
class Scripted:
    """One request of a script."""

    line: str
    """The conversation that it belongs to in truth."""
    before: int | None
    """The request of its conversation before it."""
    origin: int | None
    """The request whose answer is the last in its prompt."""
    sender: Agent
    messages: list[Message]
    answers: list[Message]
    start_s: float
    end_s: float
    how: How
    fields: dict[str, Any]
    is_aside: bool


@dataclass(slots=True)
class Script:
    """Requests in the order in which they are written; they arrive by their times."""

    requests: list[Scripted] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)

    def agent(self, name: str, parent: Agent | None = None, **said: Any) -> Agent:
        """Add an agent with instructions, a task and tools of its own."""
        made = Agent(self, name, parent, **said)
        self.agents.append(made)
        return made


@dataclass(slots=True)
class Agent:
    """Somebody with a list of messages; each call brings its answer into it."""

    script: Script = field(repr=False)
    name: str
    parent: Agent | None = None
    instructions: str = "You are an agent that works with tools."
    task: str = ""
    tools: list[Message] | None = field(default_factory=lambda: TOOLS)
    model: str = "m"
    session: str = "s"
    messages: list[Message] = field(default_factory=list)
    sources: list[int | None] = field(default_factory=list)
    """By message, the request whose answer it is."""
    last: int | None = None
    pending: list[str] = field(default_factory=list)
    said: int = 0

    def __post_init__(self) -> None:
        if not self.messages:
            if self.instructions:
                self.put(system(self.instructions))
            self.put(user(self.task or f"Do what {self.name} has to do."))

    def put(self, message: Message, source: int | None = None) -> None:
        """Add a message to the list."""
        self.messages.append(message)
        self.sources.append(source)

    def tell(self, text: str) -> None:
        """Let the user say something."""
        self.put(user(text))

    def results(self, *texts: str) -> None:
        """Send back what the tools of the last answer put out."""
        for index, call_id in enumerate(self.pending):
            self.put(
                result(call_id, texts[index] if index < len(texts) else f"{self.name} found {index} of {self.said}")
            )
        self.pending = []

    def cut(self, length: int) -> None:
        """Go back to the first messages."""
        self.messages, self.sources = self.messages[:length], self.sources[:length]

    def fork(self, name: str, *, parent: Agent | None = None) -> Agent:
        """Return another agent that begins with the same messages."""
        return self.script.agent(
            name,
            parent,
            instructions=self.instructions,
            tools=self.tools,
            messages=list(self.messages),
            sources=list(self.sources),
        )

    def ask(
        self,
        start: float,
        end: float,
        *,
        asks: int = 0,
        text: str | None = None,
        how: How = "done",
        thinking: str = "",
        keeps_thinking: bool = True,
        line: str | None = None,
        is_aside: bool = False,
        choices: int = 1,
        rewritten: str | None = None,
        **fields: Any,
    ) -> int:
        """Make a call; `line` is another conversation that it belongs to in truth, which goes on with nothing."""
        number = len(self.script.requests)
        self.said += how == "done"
        said = f"{self.name} says something for the {self.said}. time." if text is None else text
        ids = [f"{number}.{index}" for index in range(asks)]
        calls = [tool_call(call_id, f"tool_{index}") for index, call_id in enumerate(ids)]
        answers = [
            assistant(said if x == 0 else f"{said} or {x}", calls=calls, thinking=thinking) for x in range(choices)
        ]
        origin = next((x for x in reversed(self.sources) if x is not None), None)
        body = {"model": self.model} | ({"tools": self.tools} if self.tools else {}) | fields
        before = self.last if line is None else None
        scripted = Scripted(
            line=line or self.name,
            before=before,
            origin=origin,
            sender=self,
            messages=list(self.messages),
            answers=answers,
            start_s=start,
            end_s=end,
            how=how,
            fields={name: value for name, value in body.items() if value is not None},
            is_aside=is_aside,
        )
        self.script.requests.append(scripted)
        if line is None and how not in NO_CALL:
            self.last = number
        if line is None and how == "done":
            kept = assistant(said if rewritten is None else rewritten, calls=calls, thinking=thinking * keeps_thinking)
            self.put(kept, number)
            self.pending = ids
        return number

    def work(self, times: Sequence[tuple[float, float]], *, asks: int = 1) -> None:
        """Make calls that ask for tools and get results, but for the last."""
        for start, end in times[:-1]:
            self.ask(start, end, asks=asks)
            self.results()
        self.ask(*times[-1])

    def side(self, name: str, instructions: str, start: float, end: float, **fields: Any) -> None:
        """Let the client make a call of its own beside the agent's work."""
        aside = replace(self, messages=[], sources=[], instructions=instructions, task=f"About {self.name}", last=None)
        aside.ask(start, end, line=name, is_aside=True, **({"tools": None} | fields))


@dataclass(slots=True)
class Played:
    """A recorded run beside its truth; calls by their numbers in the trace."""

    script: Script
    ids: Ids
    trace: Trace
    requests: list[Scripted]
    """Those that became calls."""
    before: list[int | None]
    """The true call before each in its conversation."""

    def calls(self) -> list[Call]:
        return list(self.trace.calls())

    def found(self) -> list[int | None]:
        """Return the call before each in its conversation, as the trace says."""
        last: dict[int, int] = {}
        found = []
        for call in self.trace.calls():
            found.append(last.get(call.conversation_id))
            last[call.conversation_id] = call.call
        return found


def play(script: Script, ids: Ids, api: str = "chat") -> Played:
    """Record a script; the same script and ids give the same trace."""
    spoken = APIS[api]
    wire = Wire(key=b"k" * 32)
    order = sorted(range(len(script.requests)), key=lambda x: (script.requests[x].start_s, x))
    moments = [(script.requests[x].start_s, 1, rank, x) for rank, x in enumerate(order)]
    moments += [(script.requests[x].end_s, 0, rank, x) for rank, x in enumerate(order)]
    exchanges: dict[int, Exchange] = {}
    for at_s, is_start, _, number in sorted(moments):
        request = script.requests[number]
        if is_start:
            exchanges[number] = _send(wire, request, ids, at_s, spoken)
        elif request.how != "lost":
            _end(exchanges[number], request, ids, at_s, spoken)
    journal = wire.written()
    if ids == "response":
        journal = _naming(journal, script, order)
    trace = build_trace(journal).trace
    assert trace is not None
    kept = [x for x in order if script.requests[x].how not in NO_CALL]
    numbers: dict[int, int] = {}
    before: list[int | None] = []
    requests: list[Scripted] = []
    for x in kept:
        request = script.requests[x]
        earlier = None if request.before is None else numbers[request.before]
        for _ in request.answers:
            requests.append(request)
            before.append(earlier)
            earlier = numbers[x] = len(before) - 1
    return Played(script, ids, trace, requests, before)


def _send(wire: Wire, request: Scripted, ids: Ids, at_s: float, api: Api) -> Exchange:
    fields = dict(request.fields)
    if len(request.answers) > 1:
        fields["n"] = len(request.answers)
    if request.how in ("cancelled", "broken"):
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    body = api.body([_with_ids(message, ids) for message in request.messages], fields)
    headers = CIMultiDict(_headers(request.sender, ids))
    return wire.recorder.request(api.path(fields), orjson.dumps(body), at_s=at_s, headers=headers)


def _headers(sender: Agent, ids: Ids) -> Mapping[str, str]:
    parent = sender.parent
    if ids == "own":
        named = {"x-rotoscope-branch": sender.name if parent or sender.session == "s" else sender.session}
        return named | ({"x-rotoscope-parent": parent.name} if parent else {})
    if ids == "session":
        return {"x-litellm-session-id": sender.session}
    if ids == "codex":
        named = {"session-id": sender.session, "thread-id": sender.name if parent else sender.session}
        above = (parent.name if parent.parent else parent.session) if parent else ""
        return named | ({"x-codex-parent-thread-id": above} if above else {})
    if ids == "opencode":
        named = {"x-session-id": f"{sender.session} {sender.name}" if parent else sender.session}
        above = (f"{parent.session} {parent.name}" if parent.parent else parent.session) if parent else ""
        return named | ({"x-parent-session-id": above} if above else {})
    if ids != "claude":
        return {}
    named = {"x-claude-code-session-id": sender.session}
    if parent is not None:
        named["x-claude-code-agent-id"] = sender.name
        if parent.parent is not None:
            named["x-claude-code-parent-agent-id"] = parent.name
    return named


def _with_ids(message: Message, ids: Ids) -> Message:
    """Give tool calls the ids that the server gave them."""
    if ids in ("tools", "session"):
        return message
    if "tool_call_id" in message:
        return message | {"tool_call_id": "call_" + message["tool_call_id"].rpartition(".")[2]}
    if "tool_calls" in message:
        calls = [call | {"id": "call_" + call["id"].rpartition(".")[2]} for call in message["tool_calls"]]
        return message | {"tool_calls": calls}
    return message


def _end(exchange: Exchange, request: Scripted, ids: Ids, at_s: float, api: Api) -> None:
    match request.how:
        case "refused":
            exchange.response(429, at_s=at_s, content_type="application/json")
            exchange.chunk(b'{"error":{"message":"later"}}', at_s=at_s)
            exchange.end(at_s=at_s)
        case "reset":
            exchange.failed(at_s=at_s)
        case "broken":
            exchange.response(200, at_s=at_s, content_type="text/event-stream")
            exchange.chunk(sse({"error": {"message": "overloaded"}}), at_s=at_s)
            exchange.end(at_s=at_s)
        case "cancelled":
            exchange.response(200, at_s=at_s, content_type="text/event-stream")
            exchange.chunk(sse(api.begins), at_s=at_s)
            exchange.cancelled(at_s=at_s)
        case _:
            answer = api.answer([_with_ids(answer, ids) for answer in request.answers])
            exchange.response(200, at_s=at_s, content_type="application/json")
            exchange.chunk(orjson.dumps(answer), at_s=at_s)
            exchange.end(at_s=at_s)


def _naming(journal: Journal, script: Script, order: Sequence[int]) -> Journal:
    """Let each request name the response that it goes on from, as an interface with responses would."""
    opened: dict[int, int] = {}
    by_call: list[int] = []
    for number in order:
        opened[number] = len(by_call)
        by_call += [number] * len(script.requests[number].answers)
    records = []
    for record in journal.records:
        if isinstance(record, CallOpened):
            origin = script.requests[by_call[record.call]].origin
            record = replace(record, previous=None if origin is None else opened[origin])
        records.append(record)
    return Journal(journal.header, tuple(records))
