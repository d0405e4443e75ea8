"""Make a corpus of traces that is fit to be shown: new names in one scope, times from zero and rounded, audited.

1. Every id is made anew (`publish_ids`): nothing of an input's ids, campaigns or file names is in the output, and two
   publications of the same traces have nothing in common but what they tell.
2. Times begin at zero and are rounded (`publish_times`); the order of all calls and when traces started beside each other
   is kept where the inputs have one clock.
3. Lengths are rounded if that is asked for (`publish_lengths`), and what that does to hit rates is measured.
4. The output is audited before it takes its name; one that fails does not stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rotoscope.traces.analysis.optimum import Assumptions, planned_hits_together
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.audit import audit
from rotoscope.traces.corpus import CorpusName, Member, write_manifest
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.convert import new_folder
from rotoscope.traces.formats.recognise import LabelledTrace
from rotoscope.traces.model import Trace
from rotoscope.traces.publish_ids import CorpusIds, random_ids, rekeyed, seeded_ids
from rotoscope.traces.publish_lengths import rounded
from rotoscope.traces.publish_times import rebased, rounded_ms
from rotoscope.traces.writer import save

TIME_STEPS_MS = (1, 10, 100)
TOKEN_STEPS = (16, 64)
BLOCK_SIZES = (1, 16, 64, 512)
"""Tokens a block of the hit rates that are compared."""
RATE = "planned token hit rate"
DEFINITION = (
    f"{RATE}: tokens in found blocks / prompt tokens, on one cache without limit; outputs kept, nothing preloaded"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """What is rounded, and what the new names are made from."""

    round_ms: int = 1
    round_tokens: int | None = None
    seed: int | None = None
    """The same seed gives the same bytes; None takes names that nobody can foresee."""
    called: CorpusName | None = None
    """What the corpus is called, which results of it tell."""

    def __post_init__(self) -> None:
        if self.round_ms not in TIME_STEPS_MS:
            raise UnusableInput(f"times can be rounded to one of {TIME_STEPS_MS} ms, not to {self.round_ms}")
        if self.round_tokens not in (None, *TOKEN_STEPS):
            raise UnusableInput(f"lengths can be rounded to one of {TOKEN_STEPS} tokens, not to {self.round_tokens}")


@dataclass(frozen=True, slots=True)
class Effect:
    """A number before and after publishing."""

    what: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Published:
    """What was written, and what publishing did to it."""

    files: tuple[str, ...]
    effects: tuple[Effect, ...]


def publish(traces: Sequence[LabelledTrace], folder: Path, options: PublishOptions) -> Published:
    """Write traces as a new corpus into a folder that is not there or empty.

    Raises UnusableInput where the folder holds something, RunFailed where it cannot be written or the audit fails.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise UnusableInput(f"{folder}: is not empty, and nothing is written over; name another folder")
    before = _members(traces)
    after = published_members(before, options)
    files = tuple(f"{member.name}.trace.json" for member in after)
    try:
        with new_folder(folder, overwrites=False) as unfinished:
            for file, member in zip(files, after, strict=True):
                save(member.trace, unfinished / file)
            if len(after) > 1 or options.called:
                write_manifest(unfinished, zip(files, after, strict=True), options.called)
            _check(unfinished)
    except OSError as error:
        raise RunFailed(f"{folder}: cannot be written: {error.strerror}") from error
    return Published(files, tuple(_effects(before, after)))


def published_members(members: Sequence[Member], options: PublishOptions) -> list[Member]:
    """Return the traces as they are published, in the order given."""
    new_id = random_ids() if options.seed is None else seeded_ids(options.seed)
    ids = CorpusIds(campaign=new_id(), new_trace_id=new_id)
    starts_ms = [member.start_ms for member in members if member.start_ms is not None]
    ranks = sorted(rank for member in members for rank in member.ranks or ())
    places = {rank: place for place, rank in enumerate(ranks)}
    return [
        Member(
            name=f"trace-{number:04}",
            trace=_published(member, ids, options),
            start_ms=_start_ms(member, min(starts_ms, default=0.0), options),
            ranks=None if member.ranks is None else tuple(places[rank] for rank in member.ranks),
        )
        for number, member in enumerate(members, start=1)
    ]


def _published(member: Member, ids: CorpusIds, options: PublishOptions) -> Trace:
    trace = rebased(rekeyed(member.trace, ids), options.round_ms)
    return normalise(trace) if options.round_tokens is None else rounded(trace, options.round_tokens)


def _start_ms(member: Member, first_ms: float, options: PublishOptions) -> float | None:
    return None if member.start_ms is None else rounded_ms(member.start_ms - first_ms, options.round_ms)


def _members(traces: Sequence[LabelledTrace]) -> list[Member]:
    """Return the traces with their clock and order, if they all have the same one and none is given twice."""
    corpora = {one.corpus for one in traces}
    ranks = [rank for one in traces for rank in one.member.ranks or ()]
    if None in corpora or len(corpora) > 1 or len(set(ranks)) < len(ranks):
        return [replace(one.member, start_ms=None, ranks=None) for one in traces]
    return [one.member for one in traces]


def _check(folder: Path) -> None:
    """Audit what was written; raise RunFailed, with the first finding, where it may not be shown."""
    done = audit([folder])
    if not done.is_clean:
        finding = done.findings.kept[0]
        raise RunFailed(
            f"nothing was published, because the audit found {done.findings.total} faults in it, first in "
            f"{finding.field or 'a file'}: {finding.what}"
        )


def _effects(before: Sequence[Member], after: Sequence[Member]) -> Iterator[Effect]:
    yield Effect("prompt tokens", *(sum(_prompts(members)) for members in (before, after)))
    yield Effect("output tokens", *(sum(_outputs(members)) for members in (before, after)))
    yield Effect(
        "calls with a prompt length of their own",
        *(sum(count == 1 for count in Counter(_prompts(members)).values()) for members in (before, after)),
    )
    for block_size in BLOCK_SIZES:
        yield Effect(f"{RATE}, block {block_size}", *(planned_rate(members, block_size) for members in (before, after)))


def _prompts(members: Iterable[Member]) -> Iterator[int]:
    return (call.prompt_tokens for member in members for call in member.trace.calls())


def _outputs(members: Iterable[Member]) -> Iterator[int]:
    return (call.completion_tokens for member in members for call in member.trace.calls())


def planned_rate(members: Sequence[Member], block_size: int) -> float:
    """Return the planned optimum of prompts on one cache: tokens in found blocks / prompt tokens."""
    assumptions = Assumptions(profile=profile_named("token", block_size=block_size), preload=False)
    prompts = sum(_prompts(members))
    return sum(map(sum, planned_hits_together(members, assumptions))) / prompts if prompts else 0.0
