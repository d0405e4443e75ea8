"""Requests in, and what they ask for without their text out: parts by number, ids as dense numbers.

A request that names a response or a conversation that the server keeps holds new messages only: its prompt goes on
behind what the recorder knows of that response. What it does not know is opaque.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rotoscope.recorder.canonical import id_bytes, ids_part, opaque_part, text_part
from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.output import Output
from rotoscope.recorder.dialects.request import NotACall, Prompt, Request
from rotoscope.recorder.growing_bodies import GrowingBodies
from rotoscope.recorder.hashing import KeyedHash
from rotoscope.recorder.identity import Identity, identify
from rotoscope.recorder.names import Names
from rotoscope.recorder.parts import KnownParts
from rotoscope.traces.journal import ThreadSource

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, without its text."""

    dialect: Dialect
    domain: int
    heads: tuple[int, ...]
    """The last part of each of its prompts."""
    choices: int
    """Outputs of each prompt."""
    is_stream: bool
    has_drafts: bool
    """Whether the server counts outputs that it does not give."""
    is_without_usage: bool
    """A stream that does not ask for usage."""
    has_stream_options: bool
    thread: int | None = None
    """Who sends it within the run, by its own word."""
    parent: int | None = None
    """Who began that one."""
    thread_source: ThreadSource | None = None
    window: int | None = None
    """How often its sender was seen to have summed up what was said, by its own word."""
    aux: bool = False
    """Whether it is beside its sender's work, by its own word."""
    previous: int | None = None
    """The call whose response it names."""
    is_opaque: bool = False
    """Whether it goes on from a response that was not seen."""
    start: int | None = None
    """The last part of the system messages and tools that it begins with; None when it begins with none."""
    answers: int | None = None
    """The call that asked for the tools whose results it ends with, by their ids."""
    results: tuple[int, ...] = ()
    """Which of its tools they are of, where they are not of the first ones."""
    conversation: bytes | None = None
    """The digest of the conversation that the server keeps."""
    changes: int = 0
    """How often that was changed beside all responses before."""
    lengths: tuple[int, ...] = (0,)
    """Of its prompts, in ids or characters."""
    ids: tuple[Sequence[int], ...] = field(default=(), repr=False)
    """The token ids of its prompts, where it gives some; they live until they are measured."""
    echoed: tuple[str, ...] = field(default=(), repr=False)
    """Its prompts, where its answer is to begin with them; they live as long as that."""

    @property
    def outputs(self) -> int:
        return len(self.heads) * self.choices

    def head(self, output: int) -> int:
        """Return the last part of the prompt of an output."""
        return self.heads[output // self.choices]


@dataclass(frozen=True, slots=True)
class _Response:
    """A response that later requests may name."""

    call: int
    part: int
    """The last part of its prompt and answer."""
    start: int | None
    """The last of the parts that a request brings itself."""
    domain: int


@dataclass(frozen=True, slots=True)
class _AskedTool:
    """A tool call that results may name."""

    call: int
    place: int | None
    """Among the tools that the call asked for; None where its ids do not tell."""


class RequestReader:
    """Read the requests of one run; what is kept between them are digests."""

    def __init__(
        self,
        keyed: KeyedHash,
        parts: KnownParts,
        *,
        domain_of: Callable[[bytes], int] | None = None,
        names: Names | None = None,
    ) -> None:
        self._hash: KeyedHash | None = keyed
        self._parts = parts
        self._bodies: dict[tuple[str, str], GrowingBodies[Asked]] = {}
        """By dialect and path: either may say what a body does not."""
        self._domains: dict[bytes, int] = {}
        self._domain_of = domain_of
        self._names = names
        self._threads: dict[bytes, int] = {}
        self._windows: defaultdict[int, list[int]] = defaultdict(list)
        """By thread, the numbers of its windows as the client counts them, each greater than the one before."""
        self._responses: dict[bytes, _Response] = {}
        self._begun: set[bytes] = set()
        """Conversations that began empty."""
        self._changes: Counter[bytes] = Counter()
        """How often each conversation was changed beside all responses: its history is then another."""
        self._latest: dict[bytes, int] = {}
        """By conversation, the last call that was answered."""
        self._tool_calls: dict[bytes, _AskedTool | None] = {}
        """By the digest of its id; None where several calls gave the id out."""

    def __repr__(self) -> str:
        return f"RequestReader({len(self._domains)} domains)"

    def forget(self) -> None:
        """Drop the key and all digests."""
        self._hash = None
        self._begun.clear()
        self._changes.clear()
        self._latest.clear()
        for known in (self._bodies, self._domains, self._threads, self._windows, self._responses, self._tool_calls):
            known.clear()

    def read(self, dialect: Dialect, path: str, body: bytes, headers: Mapping[str, str]) -> Asked:
        """Read a request: only what is new in it where it goes on from an earlier one. Raises NotACall."""
        bodies, body = self._bodies_of(dialect, path), dialect.unmarked(body)
        match = bodies.match(body) if bodies is not None else None
        if bodies is not None and match is not None:
            known, items = match
            messages = dialect.messages(items)
            head = self._parts.behind_messages(known.value.heads[0], messages)
            answers, results = self._asking(messages)
            asked = replace(known.value, heads=(head,), answers=answers, results=results)
            if not _ends_with_answer(messages):
                bodies.go_on(known, body, asked)
            return self._sent_by(asked, identify(headers, {}), is_known_body=True)
        request = dialect.read(path, body)
        asked = self._asked(dialect, request)
        sent = self._sent_by(asked, identify(headers, request.body), is_known_body=False)
        if bodies is not None and _can_grow(request):  # what headers say of one body, those of the next may not
            bodies.learn(body, request.body, self._sent_by(asked, identify({}, request.body), is_known_body=False))
        return sent

    def thread_of(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> int | None:
        """Return who sends a request that is no call, by its own word."""
        identity = identify(headers, body)
        return None if identity.source is None else self._thread(identity.session, identity.thread)

    def thread_called(self, name: str) -> int:
        """Return the number of who is called so by our own header."""
        return self._thread("", name)

    def _bodies_of(self, dialect: Dialect, path: str) -> GrowingBodies[Asked] | None:
        return (
            self._bodies.setdefault((dialect.name, path), GrowingBodies(dialect.growing)) if dialect.growing else None
        )

    def answered(self, asked: Asked, call: int, output: int, known: int | None, said: Output) -> None:
        """Remember the tool calls of an output, by the digests of their ids."""
        ids = said.tool_ids
        has_all = len(set(ids)) == len(said.tool_names)
        for place, call_id in enumerate(ids):
            digest = self._digest("tool", call_id)
            before = self._tool_calls.get(digest, _AskedTool(call, None))
            is_own = before is not None and before.call == call
            self._tool_calls[digest] = _AskedTool(call, place if has_all else None) if is_own else None

    def responded(self, asked: Asked, call: int, part: int, response_id: str, *, is_whole: bool) -> None:
        """Remember a response that later requests may name; `part` is the last of its prompt and answer.

        What a conversation holds is not known behind an answer that broke off, or that another one came before.
        """
        response = _Response(call, part, asked.start, asked.domain)
        if response_id:
            self._responses[self._digest("response", response_id)] = response
        if asked.conversation is None:
            return
        last = self._responses.get(asked.conversation)
        is_next = last is None or last.call in (asked.previous, call)
        if is_whole and is_next and self._changes[asked.conversation] == asked.changes:
            self._responses[asked.conversation] = response
        else:
            self._change(asked.conversation)
        self._latest[asked.conversation] = call

    def conversation_began(self, name: str) -> None:
        """Remember a conversation that the server keeps, and that began empty."""
        self._begun.add(self._digest("conversation", name))

    def conversation_changed(self, name: str) -> None:
        """Forget a conversation to which something was added, or from which it was taken, beside all responses."""
        self._change(self._digest("conversation", name))

    def _change(self, conversation: bytes) -> None:
        self._begun.discard(conversation)
        self._changes[conversation] += 1
        self._responses.pop(conversation, None)

    def _asked(self, dialect: Dialect, request: Request) -> Asked:
        digest = self._digest("domain", request.domain)
        conversation = self._digest("conversation", request.conversation) if request.conversation else None
        before = self._before(request, conversation)
        domain = self._domain(digest, request.domain)
        is_seen = before is not None or conversation in self._begun
        name = "" if is_seen else request.previous_response or request.conversation
        if conversation is not None and (changes := self._changes[conversation]) and name:
            name += f" {changes}"
        starts = [self._start_of(prompt, digest) for prompt in request.prompts]
        prompts = zip(request.prompts, starts, strict=True)
        answers, results = self._asking(request.prompts[0].messages)
        return Asked(
            dialect=dialect,
            domain=domain,
            heads=tuple(
                self._head_of(prompt, self._history(start, before, name or prompt.unseen, digest, domain))
                for prompt, start in prompts
            ),
            choices=request.choices,
            is_stream=request.is_stream,
            has_drafts=request.has_drafts,
            is_without_usage=request.is_without_usage,
            has_stream_options=request.has_stream_options,
            previous=before.call if before is not None else self._latest.get(conversation or b""),
            is_opaque=bool(name or request.prompts[0].unseen),
            start=starts[0],
            answers=answers,
            results=results,
            conversation=conversation,
            changes=0 if conversation is None else self._changes[conversation],
            lengths=request.lengths,
            ids=request.ids,
            echoed=tuple(prompt.text or "" for prompt in request.prompts) if request.is_echoed else (),
        )

    def _domain(self, digest: bytes, domain: bytes) -> int:
        """Return the number of a cache domain."""
        if digest not in self._domains:
            self._domains[digest] = len(self._domains) if self._domain_of is None else self._domain_of(digest)
            if self._names is not None:
                self._names.domain(self._domains[digest], domain)
        return self._domains[digest]

    def _before(self, request: Request, conversation: bytes | None) -> _Response | None:
        if request.previous_response:
            return self._responses.get(self._digest("response", request.previous_response))
        return None if conversation is None else self._responses.get(conversation)

    def _start_of(self, prompt: Prompt, domain: bytes) -> int | None:
        """Return the last part of the system messages and tools of a prompt, None where it has none."""
        before: int | bytes = domain
        if at := _messages_before_tools(prompt):
            before = self._parts.behind_messages(before, prompt.messages[:at])
        if prompt.tools is not None:
            before = self._parts.behind(before, prompt.tools)
        return before if isinstance(before, int) else None

    def _history(
        self, start: int | None, response: _Response | None, unseen: str, digest: bytes, domain: int
    ) -> int | bytes:
        """Return what the new messages of a prompt stand behind: what was said before, behind its own start."""
        before = digest if start is None else start
        if response is not None:
            if (response.start, response.domain) == (start, domain):
                return response.part
            before = self._parts.moved(response.part, since=response.start, before=before)
        return self._parts.behind(before, opaque_part(unseen)) if unseen else before

    def _head_of(self, prompt: Prompt, before: int | bytes) -> int:
        """Return the last part of a prompt whose messages stand behind a part; text and ids stand at the start."""
        if prompt.ids is not None:
            return self._parts.behind_text(before, id_bytes(prompt.ids), ids_part)
        if prompt.text is not None:
            return self._parts.behind_text(before, prompt.text.encode(errors="surrogatepass"), text_part)
        messages = prompt.messages[_messages_before_tools(prompt) :]
        if not messages and isinstance(before, int):
            return before
        if not messages:
            raise NotACall("the prompt is empty")
        return self._parts.behind_messages(before, messages)

    def _asking(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int | None, tuple[int, ...]]:
        """Return the last call that asked for tools whose results messages end with, by ids of it alone, and which."""
        asked: list[_AskedTool] = []
        for message in reversed(messages):
            if message.get("role") == "assistant":
                break
            if (call_id := message.get("tool_call_id")) and (
                tool := self._tool_calls.get(self._digest("tool", str(call_id)))
            ):
                asked.append(tool)
        if not asked:
            return None, ()
        places = {tool.place for tool in asked if tool.call == asked[0].call}
        told = tuple(sorted(place for place in places if place is not None))
        return asked[0].call, () if None in places or told == tuple(range(len(told))) else told

    def _sent_by(self, asked: Asked, identity: Identity, *, is_known_body: bool) -> Asked:
        """Say who sends a request; what a body says of that is the same in a body that goes on from it."""
        if identity.source is None:
            return asked if is_known_body else replace(asked, thread=None, parent=None, thread_source=None)
        thread = self._thread(identity.session, identity.thread)
        return replace(
            asked,
            thread=thread,
            parent=self._thread(identity.session, identity.parent) if identity.has_parent else None,
            thread_source=identity.source,
            window=self._window(thread, identity.window),
            aux=identity.is_aside,
        )

    def _window(self, thread: int, number: int | None) -> int | None:
        """Return how often a thread was seen to raise the number of its window, up to where it had this one."""
        if number is None:
            return None
        seen = self._windows[thread]
        if not seen or number > seen[-1]:
            seen.append(number)
        return max(0, bisect_right(seen, number) - 1)

    def _thread(self, session: str, thread: str) -> int:
        digest = self._digest("thread", f"{len(session)} {session}{thread}")
        number = self._threads.setdefault(digest, len(self._threads))
        if self._names is not None:
            self._names.thread(number, thread)
        return number

    def _digest(self, kind: str, name: str | bytes) -> bytes:
        assert self._hash is not None
        data = name.encode(errors="surrogatepass") if isinstance(name, str) else name
        return self._hash.digest(kind.encode() + b"\0" + data)


def _messages_before_tools(prompt: Prompt) -> int:
    return leading_messages(prompt.messages) if prompt.tools_at is None else prompt.tools_at


def leading_messages(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many messages at the start are the system's."""
    for index, message in enumerate(messages):
        if message.get("role") not in _SYSTEM:
            return index
    return len(messages)


def _can_grow(request: Request) -> bool:
    """Whether new messages of a later body would stand behind this prompt's last message."""
    messages = request.prompts[0].messages
    is_alone = len(request.prompts) == 1 and not request.previous_response and not request.conversation
    return is_alone and leading_messages(messages) < len(messages) and not _ends_with_answer(messages)


def _ends_with_answer(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what comes next may belong to the last message, as items of an answer do."""
    return bool(messages) and messages[-1].get("role") == "assistant"
