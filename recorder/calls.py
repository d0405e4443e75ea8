"""From the records of a journal to calls: attempts are folded into the call they were for, counts get their sources.

An attempt is a request that the server refused or that broke before any output; when the same prompt is sent again it
counts among that call's `attempts`. What was refused with a status of 400 to 499 and not sent again is no call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rotoscope.recorder.part_tree import PartTree
from rotoscope.traces.journal import CallEnded, CallMeasured, CallOpened, JournalRecord, PartSeen
from rotoscope.traces.model import FinishReason, TokenSource

BYTES_PER_TOKEN = 4
"""A usual ratio, where nothing better is known."""


@dataclass(slots=True)
class SeenCall:
    """A call as it was seen on the wire; `None` where the server said nothing."""

    number: int
    opened: CallOpened
    end: CallEnded | None
    path: tuple[int, ...]
    """The parts of the prompt."""
    attempts: int
    reported_prompt_tokens: int | None
    completion_tokens: int
    completion_source: TokenSource
    reasoning_tokens: int

    @property
    def domain(self) -> int:
        return self.opened.domain

    @property
    def head(self) -> int:
        return self.opened.head

    @property
    def start_ms(self) -> float:
        return self.opened.at_ms

    @property
    def end_ms(self) -> float:
        """When it ended; never, when it was lost in flight."""
        return float("inf") if self.end is None else self.end.at_ms

    @property
    def answer(self) -> int | None:
        """The part that its whole output is when it is sent back."""
        return None if self.end is None else self.end.answer

    @property
    def finish_reason(self) -> FinishReason:
        return "lost" if self.end is None else self.end.finish_reason


@dataclass(frozen=True, slots=True)
class SeenRun:
    """All calls of a recording in the order of their numbers."""

    tree: PartTree
    calls: tuple[SeenCall, ...]
    measured: tuple[CallMeasured, ...]
    """In the order of measuring, with the numbers of `calls`."""
    refused: int
    """Requests that the server refused and that were not sent again."""


def gather(records: Iterable[JournalRecord]) -> SeenRun:
    """Sort the records of a journal into calls."""
    parts: list[PartSeen] = []
    opened: list[CallOpened] = []
    ends: dict[int, CallEnded] = {}
    measured: list[CallMeasured] = []
    for record in records:
        match record:
            case PartSeen():
                parts.append(record)
            case CallOpened():
                opened.append(record)
            case CallEnded():
                ends[record.call] = record
            case CallMeasured():
                measured.append(record)
    tree = PartTree(parts)
    attempts, stands_for, refused = _fold_attempts(opened, ends)
    kept = [call for call in opened if call.call in attempts]
    numbers = {call.call: number for number, call in enumerate(kept)}
    calls = tuple(_seen(numbers[x.call], x, ends.get(x.call), tree, attempts[x.call]) for x in kept)
    folded = {call: numbers[stands_for.get(call, call)] for call in (*numbers, *stands_for)}
    return SeenRun(tree, calls, _renumbered(measured, folded), refused)


def _fold_attempts(opened: list[CallOpened], ends: dict[int, CallEnded]) -> tuple[dict[int, int], dict[int, int], int]:
    """Return the attempts of each call that stays, which call each other attempt was for, and how many were refused."""
    attempts: dict[int, int] = {}
    stands_for: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    for call in opened:
        before = [x for x in pending.pop(call.head, ()) if ends[x].at_ms <= call.at_ms]
        if _is_failed(ends.get(call.call)):
            pending[call.head] = [*before, call.call]
        else:
            attempts[call.call] = len(before) + 1
            stands_for |= dict.fromkeys(before, call.call)
    refused = 0
    for *before, last in pending.values():
        if 400 <= ends[last].status < 500:
            refused += 1
        else:
            attempts[last] = len(before) + 1
            stands_for |= dict.fromkeys(before, last)
    return attempts, stands_for, refused


def _is_failed(end: CallEnded | None) -> bool:
    if end is None or end.output_bytes or end.completion_tokens:
        return False
    return end.status >= 400 or (end.status == 0 and end.finish_reason == "error")


def _seen(number: int, opened: CallOpened, end: CallEnded | None, tree: PartTree, attempts: int) -> SeenCall:
    tokens, source, reasoning = _completion(end)
    reported = None if end is None else end.prompt_tokens
    return SeenCall(
        number=number,
        opened=opened,
        end=end,
        path=tree.path(opened.head),
        attempts=attempts,
        reported_prompt_tokens=reported,
        completion_tokens=tokens,
        completion_source=source,
        reasoning_tokens=reasoning,
    )


def _completion(end: CallEnded | None) -> tuple[int, TokenSource, int]:
    """Return output tokens, their source, and how many are thinking."""
    if end is None:
        return 0, "estimate", 0
    tokens, source = end.completion_tokens, "usage"
    if tokens is None:
        tokens, source = max(end.chunks, round(end.output_bytes / BYTES_PER_TOKEN)), "estimate"
    elif end.is_split:
        source = "estimate"
    reasoning = end.reasoning_tokens
    if reasoning is None:
        reasoning = round(tokens * end.reasoning_bytes / end.output_bytes) if end.output_bytes else 0
    return tokens, source, min(reasoning, tokens)


def _renumbered(measured: list[CallMeasured], numbers: dict[int, int]) -> tuple[CallMeasured, ...]:
    """Return the measurements with the numbers of the calls that stay, each call once.

    What named a request that was refused for good is dropped: it has no number.
    """
    kept: dict[int, CallMeasured] = {}
    for record in measured:
        call, of = numbers.get(record.call), None if record.of is None else numbers.get(record.of)
        if call is not None and call not in kept and (record.of is None or of in kept):
            kept[call] = replace(record, call=call, of=of)
    return tuple(kept.values())
