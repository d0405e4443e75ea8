"""From the records of a journal to calls: attempts are folded into the call they were for, counts get their sources.

An attempt is a request that the server refused or that broke before any output; when the same prompt is sent again it
counts among that call's `attempts`, and what its client did before had ended with the first. What was refused with a
status of 400 to 499 and not sent again is no call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

from rotoscope.recorder.part_sizes import BYTES_PER_TOKEN, PartSizes
from rotoscope.recorder.part_tree import PartTree
from rotoscope.recorder.rendering import (
    ANSWER_HEADER_TOKENS,
    BYTES_DEVIATION,
    COUNTED_DEVIATION,
    Observation,
    Rendering,
    learn,
)
from rotoscope.traces.journal import (
    CallEnded,
    CallMeasured,
    CallOpened,
    JournalRecord,
    OutputMeasured,
    PartCounted,
    PartSeen,
)
from rotoscope.traces.model import FinishReason, TokenSource

MEASURED: TokenSource = "tokenizer:server"
_LEAST_OUTPUT_TOKENS = 16
"""A shorter output says little of a tokenizer."""


@dataclass(slots=True)
class SeenCall:
    """A call as it was seen on the wire; `None` where the server said nothing."""

    number: int
    opened: CallOpened
    end: CallEnded | None
    path: tuple[int, ...]
    """The parts of the prompt."""
    attempts: int
    asked_ms: float
    """When its prompt was first sent: earlier than it started, where attempts came to nothing."""
    reported_prompt_tokens: int | None
    """As the usage says, or as the server's tokenizer counted."""
    prompt_source: TokenSource
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
    def thread(self) -> int | None:
        """Who sent it, by its own word."""
        return self.opened.thread

    @property
    def is_plain(self) -> bool:
        """Whether its prompt is text or token ids, without a template."""
        return self.opened.dialect == "completions"

    @property
    def start_ms(self) -> float:
        return self.opened.at_ms

    @property
    def end_ms(self) -> float:
        """When it ended; never, when it was lost in flight."""
        return float("inf") if self.end is None else self.end.at_ms

    def sent_ms(self, before: SeenCall) -> float:
        """Return when its prompt was first sent behind a call; an attempt before that was of somebody else."""
        return self.asked_ms if self.asked_ms >= before.end_ms else self.start_ms

    @property
    def answer(self) -> int | None:
        """The part that its whole output is when it is sent back."""
        return None if self.end is None else self.end.answer

    @property
    def tools(self) -> tuple[int, ...]:
        """Pseudonyms of the tools it asked for."""
        return () if self.end is None else self.end.tools

    @property
    def shows_thinking(self) -> bool:
        """Whether the text of its thinking was delivered."""
        return self.end is not None and self.end.reasoning_bytes > 0

    @property
    def hides_thinking(self) -> bool:
        """Whether its output begins with thinking whose text was not delivered; plain text holds it."""
        return self.reasoning_tokens > 0 and not self.shows_thinking and not self.is_plain

    @property
    def finish_reason(self) -> FinishReason:
        return "lost" if self.end is None else self.end.finish_reason


@dataclass(frozen=True, slots=True)
class SeenRun:
    """All calls of a recording in the order of their numbers."""

    tree: PartTree
    calls: tuple[SeenCall, ...]
    measured: tuple[CallMeasured | OutputMeasured, ...]
    """In the order of measuring, with the numbers of the journal."""
    exact: frozenset[int]
    """Calls whose measured prompts are what the server counted."""
    refused: int
    """Requests that the server refused and that were not sent again."""
    sizes: PartSizes
    renderings: dict[int, Rendering]
    """What the server of each domain makes of sizes."""


def gather(records: Iterable[JournalRecord], tokenizer: str | None = None) -> SeenRun:
    """Sort the records of a journal into calls; `tokenizer` is what counted texts."""
    parts: list[PartSeen] = []
    opened: list[CallOpened] = []
    ends: dict[int, CallEnded] = {}
    measured: dict[int, CallMeasured] = {}
    lengths: list[CallMeasured | OutputMeasured] = []
    counts: dict[int, PartCounted] = {}
    for record in records:
        match record:
            case PartSeen():
                parts.append(record)
            case CallOpened():
                opened.append(record)
            case CallEnded():
                ends[record.call] = record
            case CallMeasured():
                measured[record.call] = record
                lengths.append(record)
            case OutputMeasured():
                lengths.append(record)
            case PartCounted():
                counts[record.part] = record
    tree = PartTree(parts)
    attempts, refused = _fold_attempts(opened, ends)
    kept = [call for call in opened if call.call in attempts]
    calls = tuple(_seen(number, x, ends.get(x.call), tree, attempts[x.call]) for number, x in enumerate(kept))
    exact = frozenset(call.number for call in calls if _trust(call, measured))
    sizes = PartSizes(tree, counts, tokenizer)
    renderings = _renderings(calls, sizes)
    for call in calls:
        _count(call, sizes, renderings[call.domain])
    return SeenRun(tree, calls, tuple(lengths), exact, refused, sizes, renderings)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The requests that were one call."""

    count: int
    since_ms: float
    """When the first one arrived."""


def _fold_attempts(opened: list[CallOpened], ends: dict[int, CallEnded]) -> tuple[dict[int, _Attempts], int]:
    """Return the attempts of each call that stays, and how many requests were refused for good.

    The choices of a request fail together, and are sent again together.
    """
    attempts: dict[int, _Attempts] = {}
    pending: dict[tuple[int, int | None], list[list[CallOpened]]] = {}
    for choices in _by_request(opened):
        head = choices[0].head, choices[0].thread
        failed = pending.setdefault(head, [])
        if all(_is_failed(ends.get(x.call)) for x in choices):
            failed.append(choices)
            continue
        before = [x for x in failed if ends[x[0].call].at_ms <= choices[0].at_ms]
        attempts.update(_attempts([*before, choices]))
        pending[head] = [x for x in failed if x not in before]
    refused = 0
    for failed in filter(None, pending.values()):
        if 400 <= ends[failed[-1][0].call].status < 500:
            refused += len(failed)
        else:
            attempts.update(_attempts(failed))
    return attempts, refused


def _attempts(requests: Sequence[Sequence[CallOpened]]) -> dict[int, _Attempts]:
    """Let the choices of the last request stand for all."""
    told = _Attempts(len(requests), requests[0][0].at_ms)
    return {choice.call: told for choice in requests[-1]}


def _by_request(opened: list[CallOpened]) -> list[list[CallOpened]]:
    """Return the calls of each request; they stand together."""
    by_request = groupby(opened, lambda x: (None, x.call) if x.request is None else (x.request, None))
    return [list(calls) for _, calls in by_request]


def _is_failed(end: CallEnded | None) -> bool:
    """Whether a request came to nothing, though the error may have come inside an answer that began well."""
    if end is None or end.status >= 400:
        return end is not None
    said_nothing = not (end.output_bytes or end.chunks or end.completion_tokens)
    return end.finish_reason == "error" and said_nothing


def _seen(number: int, opened: CallOpened, end: CallEnded | None, tree: PartTree, attempts: _Attempts) -> SeenCall:
    tokens, source, reasoning = _completion(end)
    reported = None if end is None else end.prompt_tokens
    prompt_source: TokenSource = "usage"
    if end is None or reported is None or end.is_prompt_split:
        prompt_source = "estimate"
    return SeenCall(
        number=number,
        opened=opened,
        end=end,
        path=tree.path(opened.head),
        attempts=attempts.count,
        asked_ms=attempts.since_ms,
        reported_prompt_tokens=reported,
        prompt_source=prompt_source,
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


def _trust(call: SeenCall, measured: dict[int, CallMeasured]) -> bool:
    """Whether a call's prompt was measured and is what the server counted; take its length where it counted nothing."""
    record = measured.get(call.opened.call)
    if record is None or call.reported_prompt_tokens not in (None, record.prompt_tokens):
        return False
    if call.reported_prompt_tokens is None:
        call.reported_prompt_tokens, call.prompt_source = record.prompt_tokens, MEASURED
    return True


def _renderings(calls: Sequence[SeenCall], sizes: PartSizes) -> dict[int, Rendering]:
    """Return what the usage of each domain's calls tells of its template and tokenizer."""
    deviation = BYTES_DEVIATION if sizes.source == "estimate" else COUNTED_DEVIATION
    seen: dict[int, list[Observation]] = {}
    for call in calls:
        seen.setdefault(call.domain, []).extend(_observed(call, sizes))
    return {domain: learn(observed, ratio_deviation=deviation) for domain, observed in seen.items()}


def _observed(call: SeenCall, sizes: PartSizes) -> Iterator[Observation]:
    """Yield what the server counted of a call's prompt, and of its output where all of it was delivered."""
    head, answer = call.head, call.answer
    if call.reported_prompt_tokens is not None and call.prompt_source != "estimate":
        messages = sizes.messages_up_to(head)
        yield Observation(
            call.reported_prompt_tokens - (ANSWER_HEADER_TOKENS if messages else 0.0),
            sizes.up_to(head),
            messages,
            sizes.answers_with_calls_up_to(head),
            noise=1.0 + sizes.thinking_up_to(head) + _doubt(sizes, sizes.uncounted_up_to(head)),
        )
    is_whole = call.finish_reason in ("stop", "tool_calls", "length") and not call.hides_thinking
    if call.completion_source != "usage" or answer is None or not is_whole:
        return
    size = sizes.text(answer) + sizes.reasoning(answer)
    if size >= _LEAST_OUTPUT_TOKENS and call.completion_tokens <= 2 * size:  # more of it is thinking that is not told
        noise = 2.0 + _doubt(sizes, 0.0 if sizes.is_counted(answer) else size)
        yield Observation(call.completion_tokens, size, 0, bool(call.tools), noise)


def _doubt(sizes: PartSizes, uncounted: float) -> float:
    """Return how far the size of text that was not counted may be off; of sizes by bytes it is the ratio's."""
    is_by_bytes = sizes.source == "estimate" and uncounted < inf
    return 0.0 if is_by_bytes else uncounted / BYTES_PER_TOKEN


def _count(call: SeenCall, sizes: PartSizes, rendering: Rendering) -> None:
    """Let the tokenizer at hand count what the server did not tell."""
    if call.reported_prompt_tokens is None:
        call.prompt_source = sizes.source_up_to(call.head)
    end, answer = call.end, call.answer
    if end is None or answer is None or sizes.source_of(answer) == "estimate":
        return
    reasoning = sizes.reasoning(answer)
    size = sizes.text(answer) + reasoning
    if end.completion_tokens is None:
        added = rendering.call if call.finish_reason == "tool_calls" else 0.0
        call.completion_tokens, call.completion_source = round(rendering.ratio * size + added), sizes.source
    if end.reasoning_tokens is None:
        call.reasoning_tokens = round(call.completion_tokens * reasoning / size) if size else 0
    call.reasoning_tokens = min(call.reasoning_tokens, call.completion_tokens)
