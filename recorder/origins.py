"""What each call goes on from, as far as its request tells: by ids it names, else by what its prompt holds.

Only calls of the same line, by the client's own word, are considered: requests that name nobody are a line too. For
each call, in this order:

1. `response`: it names the response of a call.
2. `tools`: it ends with results of tools that a call asked for, by ids that only that call gave out. Where its prompt
   holds more of another stream, or nothing of that one, the ids were used again or come late, and say nothing. Where
   the same prompt had come with the same ids, it is that prompt `again`.
3. `prefix`: its prompt holds the whole stream of a call, answer included, or the whole prompt with another answer;
   whatever stands behind that answer.
4. `answer`: its last answer is a call's, though what stands before it is in no stream.
5. `again`: it is the same prompt again.
6. `rewind`: it holds the stream of a call and a part of what came behind it; or a whole prompt without its answer.
7. `part`: it holds a part of a prompt, behind the instructions.

An answer counts from when it has ended. Messages are compared by their loose form.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rotoscope.recorder.calls import SeenCall, SeenRun

OriginKind: TypeAlias = Literal["response", "tools", "prefix", "answer", "again", "rewind", "part", "copy", "none"]
LEAST_ANSWER_BYTES = 16
"""Shorter answers are alike by chance."""
MOST_CANDIDATES = 1024
"""Of more calls that one may go on from, the latest are looked at."""
MOST_REPEATED = 64
"""Of more calls with the same prompt, the latest are looked at."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a call goes on from by its own words; of several candidates nothing tells which."""

    kind: OriginKind
    calls: tuple[int, ...] = ()
    beneath: tuple[int, ...] = ()
    """Of a prompt that comes again while it is in flight: the calls that both may go on from."""

    @property
    def is_behind_answer(self) -> bool:
        """Whether the request holds, or names, what the call said."""
        return self.kind in ("response", "tools", "prefix", "answer")


NO_ORIGIN = Origin("none")


@dataclass(slots=True)
class _Streams:
    """The streams of one line of calls, by the last message of each, and by its last answer alone."""

    known: dict[int, int] = field(default_factory=dict)
    """By message, with all that is before it, the first call with it in its stream."""
    prompts: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    answers: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    texts: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


class OriginFinder:
    """Find the origin of each call of a run, in the order of their numbers."""

    def __init__(self, run: SeenRun) -> None:
        self._run = run
        self._numbers = {call.opened.call: call.number for call in run.calls}
        self._streams: defaultdict[tuple[int | None, bool], _Streams] = defaultdict(_Streams)
        """By who sends a call, those that are said to be beside its work for themselves: only they go on from one."""
        self._ending: list[tuple[float, int]] = []

    def origins(self) -> list[Origin]:
        """Return the origin of each call; the choices of one request have one."""
        found: list[Origin] = []
        for call in self._run.calls:
            self._let_end(call.start_ms)
            before = self._run.calls[call.number - 1] if call.number else None
            if before is not None and is_same_request(before, call):
                found.append(found[-1])
            else:
                found.append(self._aside(call) if call.opened.aux else self._origin(call))
            self._add_prompt(call)
            heapq.heappush(self._ending, (call.end_ms, call.number))
        return found

    def _aside(self, call: SeenCall) -> Origin:
        """Return the origin of a call that is said to be beside the work: another such call, or what it is a copy of."""
        origin = self._origin(call)
        if origin.is_behind_answer and all(self._run.calls[x].opened.aux for x in origin.calls):
            return origin
        held = self._held(call, self._streams[call.thread, False])
        return Origin("copy", held.calls) if held.calls else NO_ORIGIN

    def _let_end(self, now_ms: float) -> None:
        while self._ending and self._ending[0][0] <= now_ms:
            self._add_answer(self._run.calls[heapq.heappop(self._ending)[1]])

    def _add_prompt(self, call: SeenCall) -> None:
        streams = self._streams[call.thread, call.opened.aux]
        ids = self._run.tree.message_ids(call.head)
        for message in reversed(ids):
            if message in streams.known:
                break
            streams.known[message] = call.number
        if ids:
            streams.prompts[ids[-1]].append(call.number)

    def _add_answer(self, call: SeenCall) -> None:
        if call.answer is None:
            return
        streams = self._streams[call.thread, call.opened.aux]
        node = self._run.tree.node(call.answer)
        streams.known.setdefault(node.message_id, call.number)
        streams.answers[node.message_id].append(call.number)
        if node.seen.loose_bytes >= LEAST_ANSWER_BYTES:
            streams.texts[self._run.tree.text_digest(call.answer)].append(call.number)

    def _origin(self, call: SeenCall) -> Origin:
        streams = self._streams[call.thread, call.opened.aux]
        named = self._ended(call, call.opened.previous)
        if named is not None:
            return Origin("response", (named,))
        held = self._held(call, streams)
        asking = self._ended(call, call.opened.answers)
        if asking is None or self._holds_more(call, held, asking):
            return held
        if sent := self._sent_before(call, held):
            return Origin("again", sent)
        return Origin("tools", (asking,)) if asking in held.calls or self._shows(call, asking) else held

    def _ended(self, call: SeenCall, journal_number: int | None) -> int | None:
        """Return the number of a call that a request names, if it is of the same line and had ended."""
        number = None if journal_number is None else self._numbers.get(journal_number)
        if number is None:
            return None
        other = self._run.calls[number]
        return number if other.thread == call.thread and other.end_ms <= call.start_ms else None

    def _holds_more(self, call: SeenCall, held: Origin, asking: int) -> bool:
        """Whether a prompt holds the whole stream of another call, longer than that of one that it names, or as long."""
        if held.kind != "prefix" or asking in held.calls:
            return False
        ids = self._run.tree.message_ids(call.head)
        best, named = (self._run.tree.message_ids(self._run.calls[x].head) for x in (held.calls[0], asking))
        return len(best) > len(named) or (len(best) == len(named) and ids[: len(named)] != named)

    def _sent_before(self, call: SeenCall, held: Origin) -> tuple[int, ...]:
        """Return the calls that had the same prompt, with results of the same tools, if all had ended."""
        others = [self._run.calls[x] for x in held.calls if held.kind == "again"]
        same = [x for x in others if x.opened.answers == call.opened.answers]
        return tuple(x.number for x in same) if all(x.end_ms <= call.start_ms for x in same) else ()

    def _shows(self, call: SeenCall, asking: int) -> bool:
        """Whether a prompt has any message of another call's stream: by their ids alone, results may be another's."""
        tree, other = self._run.tree, self._run.calls[asking]
        theirs, mine = ({tree.text_digest(x) for x in self._said(x.head)} for x in (other, call))
        if other.answer is not None:
            theirs.add(tree.text_digest(other.answer))
        return not mine.isdisjoint(theirs)

    def _said(self, head: int) -> tuple[int, ...]:
        return self._run.tree.messages(head)[self._run.tree.leading_messages(head) :]

    def _held(self, call: SeenCall, streams: _Streams) -> Origin:
        """Say which stream a prompt holds most of."""
        ids, parts = self._run.tree.message_ids(call.head), self._run.tree.messages(call.head)
        leading = self._run.tree.leading_messages(call.head)
        index = next((i for i in range(len(ids) - 1, leading - 1, -1) if ids[i] in streams.known), -1)
        last_answer = next((i for i in range(len(parts) - 1, -1, -1) if self._is_answer(parts[i])), -1)
        if index >= 0 and (answering := streams.answers.get(ids[index])):
            return Origin("prefix", tuple(answering[-MOST_CANDIDATES:]))
        asked = streams.prompts.get(ids[index], [])[-MOST_CANDIDATES:] if index >= 0 else []
        if index + 1 < len(ids):
            asked = [x for x in asked if self._run.calls[x].end_ms <= call.start_ms]
            if asked and self._is_answer(parts[index + 1]):
                return Origin("prefix", tuple(asked))
        if index < last_answer and (found := self._with_answer(parts[last_answer], streams)):
            return Origin("answer", tuple(found))
        if asked and index + 1 == len(ids):
            asked = asked[-MOST_REPEATED:]
            return Origin("again", tuple(asked), self._beneath(call, asked, ids[leading:index], streams))
        if asked:
            return Origin("rewind", tuple(asked))
        for place in range(index - 1, leading - 1, -1):
            if answering := streams.answers.get(ids[place]):
                kind: OriginKind = "prefix" if place == last_answer else "rewind"
                return Origin(kind, tuple(answering[-MOST_CANDIDATES:]))
        return Origin("part", (streams.known[ids[index]],)) if index >= 0 else NO_ORIGIN

    def _beneath(
        self, call: SeenCall, asked: Sequence[int], messages: Sequence[int], streams: _Streams
    ) -> tuple[int, ...]:
        """Return the calls that a prompt goes on from which comes again while it is in flight."""
        if all(self._run.calls[x].end_ms <= call.start_ms for x in asked):
            return ()
        found = (streams.answers[message] for message in reversed(messages) if message in streams.answers)
        return tuple(next(found, [])[-MOST_CANDIDATES:])

    def _with_answer(self, part: int, streams: _Streams) -> list[int]:
        """Return the calls with an answer, whatever their prompts."""
        return streams.texts.get(self._run.tree.text_digest(part), [])[-MOST_CANDIDATES:]

    def _is_answer(self, part: int) -> bool:
        return self._run.tree[part].role == "assistant"


def is_same_request(a: SeenCall, b: SeenCall) -> bool:
    """Whether two calls are choices of one request."""
    return a.opened.request is not None and a.opened.request == b.opened.request
