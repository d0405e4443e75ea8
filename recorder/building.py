"""From the records of a journal to a trace: calls, forest, conversations, branches, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rotoscope.recorder.calls import SeenRun, gather
from rotoscope.recorder.conversations import find_turns
from rotoscope.recorder.embedding_events import with_embeddings
from rotoscope.recorder.links import Linker
from rotoscope.recorder.masked_prefixes import MaskedPrefixes
from rotoscope.recorder.prefixes import PrefixFinder
from rotoscope.recorder.regions import find_lanes
from rotoscope.recorder.timeline import Timeline
from rotoscope.recorder.told import Told, from_zero
from rotoscope.recorder.widening import widen
from rotoscope.traces.forest import normalise
from rotoscope.traces.journal import EmbeddingEnded, Journal, JournalHeader
from rotoscope.traces.model import Call, Prefix, TokenSource, Trace
from rotoscope.traces.validation import validate


@dataclass(frozen=True, slots=True)
class Built:
    """The trace of a recording, and what was left out of it."""

    trace: Trace | None
    """None when no call was seen."""
    refused: int
    """Requests that the server refused and that were not sent again."""
    threads: Mapping[int, int]
    """Who sent a call by its own word, by the number of the call in the trace."""


def build_trace(journal: Journal) -> Built:
    """Compute the trace of a recording. Raises TraceError when the records contradict one another."""
    records = from_zero(journal.records)
    run = gather(records, journal.header.tokenizer)
    embeddings = [record for record in records if isinstance(record, EmbeddingEnded)]
    told = Told.of(records)
    trace = _trace(journal.header, run, embeddings, told) if run.calls else None
    if trace is not None:
        validate(trace)
    return Built(trace, run.refused, {call.number: call.thread for call in run.calls if call.thread is not None})


def _trace(header: JournalHeader, run: SeenRun, embeddings: Sequence[EmbeddingEnded], told: Told) -> Trace:
    found = PrefixFinder(run, header.is_named)
    widen(found)
    turns = find_turns(run, Linker(run).find())
    lanes = find_lanes(run, turns, told)
    is_counted = any(call.reported_prompt_tokens is not None for call in run.calls)
    source: TokenSource = "usage" if is_counted else run.sizes.source
    events = Timeline(run, turns, lanes, found, told, source).write()
    trace = Trace(
        trace_id=header.trace_id,
        campaign=header.campaign,
        token_source=source,
        output_matches=found.output_matches,
        shared_prefixes=tuple(shared.prefix() for shared in found.shared),
        events=with_embeddings(events, embeddings, {call.number: call.thread for call in run.calls}),
    )
    return _with_masked(normalise(trace), MaskedPrefixes(found).all())


def _with_masked(trace: Trace, longer: Mapping[int, Prefix]) -> Trace:
    """Put beside the prefixes of some calls what they would be without lines that change by themselves."""
    if not longer:
        return trace
    events = (
        replace(event, masked=longer.get(event.call)) if isinstance(event, Call) else event for event in trace.events
    )
    return replace(trace, events=tuple(events))
