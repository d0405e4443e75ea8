"""One trace as text: what happened on which branch, what each call shared with what, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from rotoscope.traces.forest import Node
from rotoscope.traces.model import (
    Branch,
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)
from rotoscope.traces.phrases import counted

COLUMNS = ("branch", "what", "ISL", "OSL", "shares", "new", "cached", "start", "time", "time line")
"""Headings of the rows; the time line is left out where a trace holds no times."""


class _When(TypedDict, total=False):
    start: str
    time: str
    span: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One event as the cells of a line; `span` is its start and end in milliseconds where both are known."""

    branch: str
    what: str
    isl: str = ""
    osl: str = ""
    shares: str = ""
    new: str = ""
    cached: str = ""
    start: str = ""
    time: str = ""
    span: tuple[float, float] | None = None
    own_time: bool = False
    """What the agent spends between other things, without anybody to wait for."""


def heading(trace: Trace) -> list[str]:
    """Return the lines that say what the trace is and what its shared prefixes are."""
    calls = list(trace.calls())
    prompt_tokens = sum(call.prompt_tokens for call in calls)
    completion_tokens = sum(call.completion_tokens for call in calls)
    lines = [
        f"trace {trace.trace_id}, campaign {trace.campaign}",
        f"{counted(len(calls), 'call')}, {prompt_tokens:,} prompt tokens, {completion_tokens:,} output tokens",
        f"counted by: {trace.token_source}",
    ]
    lines += _links(calls)
    if trace.prefix_granularity > 1:
        lines.append(f"prefixes are known in blocks of {trace.prefix_granularity} tokens, at least")
    if trace.outputs == "unknown":
        lines.append("whether prompts repeat earlier outputs is not known from this trace's format")
    if trace.outputs == "assumed":
        lines.append("that prompts which grew repeat the outputs before them is assumed")
    for shared in trace.shared_prefixes:
        begins = f", begins with {shared.prefix.tokens:,} of {shared.prefix.of}" if shared.prefix else ""
        lines.append(f"shared prefix {shared.id}: {shared.kind}, {shared.tokens:,} tokens{begins}")
    return lines


def rows(trace: Trace) -> list[Row]:
    """Return one row an event that does something; messages are counted into the call that follows them."""
    out: list[Row] = []
    entered: dict[Branch | None, int] = {}
    parents: dict[int, Branch | None] = {}
    for event in trace.events:
        if isinstance(event, ParallelStart):
            parents[event.region] = event.branch
        name = _branch_name(event.branch, parents)
        if isinstance(event, Message):
            entered[event.branch] = entered.get(event.branch, 0) + 1
        elif isinstance(event, Call):
            out.append(_call_row(event, name, entered.pop(event.branch, 0)))
        else:
            out.append(_other_row(event, name))
    return out


def without_short_waits(table: Sequence[Row], places: int) -> tuple[list[Row], str]:
    """Leave out the agent's own time where it is shorter than one place of so many that the whole has; say what is missing."""
    whole = whole_span(table)
    least_ms = (whole[1] - whole[0]) / places if whole else 0.0
    short, kept = [], []
    for row in table:
        if row.own_time and row.span and row.span[1] - row.span[0] < least_ms:
            short.append(row.span)
        else:
            kept.append(row)
    together_ms = sum(end - start for start, end in short)
    said = f"{counted(len(short), 'wait')} below {least_ms / 1000:.2f} s, {together_ms / 1000:.2f} s in all, left out"
    return kept, said if short else ""


def time_line(span: tuple[float, float], whole: tuple[float, float], width: int) -> str:
    """Draw a span of milliseconds as a bar at its place in the whole, at least one character long."""
    start, end = whole
    scale = (width - 1) / (end - start) if end > start else 0.0
    left = round((span[0] - start) * scale)
    right = max(left + 1, round((span[1] - start) * scale) + 1)
    return " " * left + "█" * (right - left)


def whole_span(table: Sequence[Row]) -> tuple[float, float] | None:
    """Return the first start and the last end of all rows with times, None where none has."""
    spans = [row.span for row in table if row.span is not None]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def _call_row(call: Call, branch: str, messages: int) -> Row:
    reasoning = f" ({call.reasoning_tokens:,} reasoning)" if call.reasoning_tokens else ""
    parts = [f"call {call.call}"]
    parts += [f"conversation {call.conversation_id}"]
    parts += [f"domain {call.domain}"] if call.domain else []
    parts += ["aux"] if call.aux else []
    parts += [f"{call.attempts} attempts"] if call.attempts and call.attempts > 1 else []
    parts += [f"by {call.link}{_rivals(call)}"] if call.link else []
    parts += [f"+{counted(messages, 'message')}"] if messages else []
    parts += [f"→ {', '.join(call.tool_calls)}"] if call.tool_calls else []
    parts += [call.finish_reason] if call.finish_reason not in ("stop", "tool_calls", "unknown") else []
    return Row(
        branch=branch,
        what=", ".join(parts),
        isl=f"{call.prompt_tokens:,}",
        osl=f"{call.completion_tokens:,}{reasoning}",
        shares=_shares(call.prefix),
        new=f"{call.prompt_tokens - call.prefix.tokens:,}",
        cached="" if call.cached_tokens is None else f"{call.cached_tokens:,}",
        **_when(call.at_ms, call.duration_ms),
    )


def _links(calls: list[Call]) -> list[str]:
    """Say how it is known what calls go on from, where anything is."""
    kinds = Counter(call.link for call in calls if call.link)
    unsure = sum(1 for call in calls if call.rivals)
    if not kinds:
        return []
    doubt = f"; {unsure} could as well go on from another" if unsure else ""
    return [f"linked by: {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}{doubt}"]


def _rivals(call: Call) -> str:
    return f" (1 of {call.rivals + 1})" if call.rivals else ""


def _shares(prefix: Prefix) -> str:
    if prefix.of is None and prefix.greatest == 0:
        return "nothing"
    bounds = f", {prefix.least:,} to {prefix.greatest:,}" if prefix.least != prefix.greatest else ""
    of = "" if prefix.of is None else f" of {_node_name(prefix.of)}"
    return f"{prefix.tokens:,}{of} ({prefix.source}{bounds})"


def _node_name(node: Node) -> str:
    return f"call {node}" if isinstance(node, int) else node


def _other_row(event: TraceEvent, branch: str) -> Row:
    match event:
        case ToolCall():
            asked = f" for call {event.call}" if event.call is not None else ""
            source = f" ({event.time_source})" if event.time_source else ""
            what = f"{event.tool_call_id} {event.tool_name}{asked}{source}"
            return Row(branch, what, **_when(event.at_ms, event.duration_ms))
        case Wait():
            own_time = event.kind in ("think", "agent")
            return Row(branch, f"wait: {event.kind}", own_time=own_time, **_when(event.at_ms, event.duration_ms))
        case Embedding():
            return Row(branch, "embedding", f"{event.prompt_tokens:,}", **_when(event.at_ms, event.duration_ms))
        case ParallelStart():
            evidence = f" (by {event.evidence})" if event.evidence else ""
            return Row(
                branch, f"fork: region {event.region}, {counted(event.num_branches, 'branch', 'branches')}{evidence}"
            )
        case ParallelEnd():
            return Row(branch, f"join: region {event.region}")
        case DropKvCache():
            return Row(branch, "cache dropped")
        case _:
            raise AssertionError(event)


def _when(at_ms: float | None, duration_ms: float | None) -> _When:
    when: _When = {}
    if at_ms is not None:
        when["start"] = f"{at_ms / 1000:.2f} s"
    if duration_ms is not None:
        when["time"] = f"{duration_ms / 1000:.2f} s"
    if at_ms is not None and duration_ms is not None:
        when["span"] = (at_ms, at_ms + duration_ms)
    return when


def _branch_name(branch: Branch | None, parents: dict[int, Branch | None]) -> str:
    names = list(_line_of_branches(branch, parents))
    return "/".join(f"{region}.{index}" for region, index in reversed(names)) or "root"


def _line_of_branches(branch: Branch | None, parents: dict[int, Branch | None]) -> Iterator[Branch]:
    while branch is not None:
        yield branch
        branch = parents[branch[0]]
