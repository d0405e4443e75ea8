"""Read vllm-vcr traces: the requests of an engine, with chains of hashes that hold across all of them.

1. Requests are sorted by their arrival; where one has none, the order is that of the file and there is no clock.
2. Sessions are inferred from the prompts that they extend (`mooncake_sessions.py`); what sessions share are shared
   prefixes of kind group (`shared_forest.py`).
3. Hashes do not know images. Where two prompts with different ones have hashes in common, they may differ already in the
   first image, wherever that is: the least that is shared is then nothing.

A file is of one model, so there is one cache domain. The time between requests of a session is a wait.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.agent_lines import Line, Turn
from rotoscope.traces.formats.agent_timeline import Timeline
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id
from rotoscope.traces.formats.mooncake_rows import SourceRow
from rotoscope.traces.formats.mooncake_sessions import by_chain
from rotoscope.traces.formats.shared_forest import BlockTree, SharedForest, forest_of
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.vcr_records import Record, Records, read_records
from rotoscope.traces.model import Call, Prefix, Trace, TraceEvent
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "vcr"

LENGTHS = Aspect("prompt and output lengths", "kept")
CACHED = Aspect("cached tokens", "kept", "as what the server reported")
TIMES = Aspect("arrivals and times to the first token", "kept")
DURATIONS = Aspect("durations", "kept", "the sum of all gaps between tokens")
FINISH = Aspect("finish reasons", "kept")
SHARED = Aspect("what sessions share", "kept", "as shared prefixes of kind group", "sessions")
PREFIXES = Aspect("prefixes", "approximated", "whole blocks, each at least as long as is said")
SESSIONS = Aspect("sessions", "approximated", "inferred from prompts that grow", "sessions")
OVERLAPS = Aspect(
    "requests of one session that overlapped",
    "approximated",
    "branches beside the others, which join where their times say",
)
IMAGES = Aspect("prefixes of prompts with images", "approximated", "hashes do not know images; at least nothing")
OPAQUE = Aspect("prefixes of requests without hashes", "lost", "they may begin like anything")
NO_CLOCK = Aspect("times", "lost", "requests without an arrival stand in the order in which they ended")
NO_DURATIONS = Aspect("durations without gaps between tokens", "lost")
NO_PROMPT = Aspect("requests without a prompt", "lost", "they cannot be replayed", "requests")
TOKEN_IDS = Aspect("ids of generated tokens", "lost", "content is never kept", "requests")
OUTPUTS = Aspect("reuse of outputs", "lost", "hashes are of prompts alone")
GAPS = Aspect("gaps between tokens, batches, concurrency", "lost")

READ_ASPECTS = (
    *(LENGTHS, CACHED, TIMES, DURATIONS, FINISH, SHARED),
    *(PREFIXES, SESSIONS, OVERLAPS, IMAGES),
    *(OPAQUE, NO_CLOCK, NO_DURATIONS, NO_PROMPT, TOKEN_IDS, OUTPUTS, GAPS),
)


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the sessions of a file on its clock; raise TraceError where it is damaged."""
    records = read_records(source)
    try:
        members = _members(records, fidelity)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    records.notes.log(logger, source.name)
    return members


def _members(records: Records, fidelity: Fidelity) -> list[Member]:
    used = [record for record in records.records if record.prompt_tokens]
    if not used:
        raise TraceError("expected requests with a prompt, found none")
    has_clock = all(record.arrival_ms is not None for record in used)
    if has_clock:
        used.sort(key=_arrival_ms)
    else:
        used = [replace(record, arrival_ms=float(place)) for place, record in enumerate(used)]
        fidelity.note(NO_CLOCK, len(used))
    fidelity.note(NO_PROMPT, len(records.records) - len(used))
    fidelity.note(TOKEN_IDS, records.token_ids)
    _note(used, fidelity, has_clock=has_clock)
    block_size = records.block_size or 1
    tree = BlockTree(block_size)
    for record in used:
        tree.add(record.block_ids or (), record.prompt_tokens)
    sessions = by_chain([_row(record) for record in used], tree).of_rows
    forest = forest_of(tree, sessions)
    prefixes = _prefixes(used, sessions, forest, fidelity)
    campaign = derived_id(FORMAT, "campaign", *map(_digested, used))
    fidelity.note(SHARED, sum(bool(needed) for needed in forest.needed))
    fidelity.note(SESSIONS, len(forest.needed))
    ranks_of: list[list[int]] = [[] for _ in forest.needed]
    for rank, session in enumerate(sessions):
        ranks_of[session].append(rank)
    members = []
    for number, ranks in enumerate(ranks_of):
        turns = [_turn(used[rank], call, prefixes[rank], has_clock=has_clock) for call, rank in enumerate(ranks)]
        timeline = Timeline(Line(turns))
        events = timeline.events()
        fidelity.note(OVERLAPS, timeline.overlapping)
        trace = Trace(
            trace_id=derived_id(FORMAT, "session", campaign, str(number)),
            campaign=campaign,
            token_source="given",
            prefix_granularity=block_size,
            outputs="unknown",
            shared_prefixes=forest.shared_prefixes(number),
            events=events if has_clock else _without_times(events),
        )
        validate(trace)
        start_ms = round(timeline.start_ms - _arrival_ms(used[0]), 3) if has_clock else None
        members.append(Member(name=str(number), trace=trace, start_ms=start_ms, ranks=tuple(ranks)))
    return members


def _arrival_ms(record: Record) -> float:
    assert record.arrival_ms is not None
    return record.arrival_ms


def _row(record: Record) -> SourceRow:
    return SourceRow(
        line=record.line,
        at_ms=record.arrival_ms,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
        block_ids=(),
        model=None,
        session=None,
        delay_ms=None,
    )


def _digested(record: Record) -> str:
    last = record.block_ids[-1] if record.block_ids else ""
    return f"{record.prompt_tokens} {record.completion_tokens} {record.ttft_ms} {record.arrival_ms} {last}"


def _prefixes(
    records: Sequence[Record], sessions: Sequence[int], forest: SharedForest, fidelity: Fidelity
) -> list[Prefix]:
    """Return the prefixes by row; those that images make doubtful have nothing as their least."""
    images: list[list[tuple[str, ...]]] = [[] for _ in forest.needed]
    prefixes = []
    for record, session, prefix in zip(records, sessions, forest.prefixes, strict=True):
        if record.block_ids is None:
            prefix = Prefix(None, 0, "opaque", low=0, high=record.prompt_tokens)
        elif record.images and prefix.tokens:
            other = images[session][prefix.of] if isinstance(prefix.of, int) else None
            common = 0 if other is None else min(len(other), len(record.images))
            if other is None or other[:common] != record.images[:common]:
                prefix = replace(prefix, low=0, high=prefix.tokens)
                fidelity.note(IMAGES)
        images[session].append(record.images)
        prefixes.append(prefix)
    return prefixes


def _turn(record: Record, number: int, prefix: Prefix, *, has_clock: bool) -> Turn:
    call = Call(
        call=number,
        conversation_id=0,
        message_index=0,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=record.completion_tokens,
        prefix=prefix,
        cached_tokens=record.cached_tokens,
        finish_reason=record.finish_reason,
        ttft_ms=record.ttft_ms,
        duration_ms=None if record.duration_ms is None else round(record.duration_ms, 3),
    )
    arrival_ms = _arrival_ms(record)
    lasted_ms = (record.duration_ms or record.ttft_ms) if has_clock else 0.0
    return Turn(call, arrival_ms, arrival_ms + lasted_ms)


def _without_times(events: Sequence[TraceEvent]) -> tuple[TraceEvent, ...]:
    return tuple(replace(event, at_ms=None) for event in events if isinstance(event, Call))


def _note(records: Sequence[Record], fidelity: Fidelity, *, has_clock: bool) -> None:
    for aspect in (LENGTHS, CACHED, OUTPUTS, GAPS):
        fidelity.note(aspect, len(records))
    fidelity.note(TIMES, len(records) if has_clock else 0)
    fidelity.note(PREFIXES, sum(record.block_ids is not None for record in records))
    fidelity.note(OPAQUE, sum(record.block_ids is None for record in records))
    fidelity.note(DURATIONS, sum(record.duration_ms is not None for record in records))
    fidelity.note(NO_DURATIONS, sum(record.duration_ms is None for record in records))
    fidelity.note(FINISH, sum(record.finish_reason != "unknown" for record in records))
