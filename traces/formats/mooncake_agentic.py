"""Read agentic Mooncake (Dynamo): requests that wait for one another become runs with branches, joins, tools and waits.

1. Rows of one `session_id` are a line of turns; a row without one goes on with the line of the one request it waits for,
   if that is the last of its line. Rows are taken in the order of their times, and wait for earlier ones only.
2. A line was started by the latest request of another line that its first row waits for, or that names this row among
   its `branches`; one that nothing started, but that another line waits for, is a child of that from the beginning. A
   row that begins a line and waits for several others that have all ended is such a line, which only joins them; one
   that waits for a single other line is started by it, though it may be what joined that. Either way it comes after the
   same requests. Lines that hang together are one run, which becomes a trace.
3. Children that one request started and one later row of its line waits for are a region, which joins before that row.
   A child that goes on after such a row, or that nobody waits for, is never joined.
4. After all that it waits for, a request follows `delay` plus `tool_wait_ms`. A row that waits for one request alone so
   tells when that was answered, and its tools keep their places among each other: the first starts with the answer, or
   earlier where they would not have ended before the request. Else tools follow one another, or are one where that would
   take too long. What they leave of the gap is a wait.

What the model cannot say is counted: requests of a line that did not wait for one another, and requests that wait for
those of a run, or of a grandchild, that is none of their children.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.mooncake_corpus import (
    CORPUS_ASPECTS,
    SourceCorpus,
    check_turns,
    domains_of,
    in_order,
    since,
    tree_of,
)
from rotoscope.traces.formats.mooncake_links import Links, gap_ms, workflow_of
from rotoscope.traces.formats.mooncake_rows import SourceRow, SourceRows, ToolSpan
from rotoscope.traces.model import Branch, Call, ParallelEnd, ParallelStart, ToolCall, TraceEvent, Wait

RUNS = Aspect("runs", "kept", "requests that hang together", unit="runs")
BRANCHES = Aspect("branches and joins", "kept", "as regions", unit="branches")
DURATIONS = Aspect("durations", "kept", "from the request that followed and its delays")
WAITS = Aspect("delays", "kept", "as waits", unit="waits")
TOOLS = Aspect("tools", "kept", "with their places among each other", unit="tools")
TOOL_ENDS = Aspect(
    "tools", "approximated", "more of them than the gap has room for; begin before the answer", unit="tools"
)
TOOL_GAPS = Aspect(
    "tools", "approximated", "one for all, where spans or the time of the answer are not known", unit="tools"
)
IN_LINE = Aspect("order of requests", "approximated", "did not wait for the one before it in its session, and does now")
OTHER_WAITS = Aspect(
    "requests that another one waits for", "lost", "not its session's nor its children's", unit="links"
)
READ_ASPECTS = (
    *CORPUS_ASPECTS,
    *(RUNS, BRANCHES, DURATIONS, WAITS, TOOLS, TOOL_ENDS, TOOL_GAPS, IN_LINE, OTHER_WAITS),
)


def agentic_members(file: SourceRows, fidelity: Fidelity) -> list[Member]:
    """Return the runs of a file; raise TraceError where requests repeat, or wait for unknown or later ones."""
    rows = in_order(file.rows)
    links = Links.of(rows)
    check_turns(rows, links.lines)
    domains = domains_of(rows)
    tree = tree_of(rows, domains, file.block_size)
    corpus = SourceCorpus.of(rows, links.runs(), tree, domains)
    durations = links.durations()
    corpus.note(fidelity)
    fidelity.note(DURATIONS, len(durations))
    fidelity.note(IN_LINE, len(links.not_waited))
    fidelity.note(OTHER_WAITS, links.others)
    runs = corpus.rows_by_session()
    fidelity.note(RUNS, len(runs))
    return [
        corpus.member(number, indices, _Run(corpus, links, indices, durations, fidelity).events())
        for number, indices in enumerate(runs)
    ]


@dataclass(frozen=True, slots=True)
class _Region:
    number: int
    parent: int
    """The line it belongs to."""
    start: int | None
    """The row after which it starts; None where it starts with the run."""
    join: int | None
    """The row before which it joins."""
    lines: list[int]


class _Run:
    """The events of one run, in the order of its rows."""

    def __init__(
        self,
        corpus: SourceCorpus,
        links: Links,
        indices: Sequence[int],
        durations: dict[int, float],
        fidelity: Fidelity,
    ) -> None:
        self._corpus = corpus
        self._links = links
        self._durations = durations
        self._fidelity = fidelity
        self._numbers = {index: number for number, index in enumerate(indices)}
        self._first_ms = corpus.rows[indices[0]].at_ms
        lines = dict.fromkeys(links.lines[index] for index in indices)
        self._conversations = {line: number for number, line in enumerate(lines)}
        self._regions = self._find_regions()
        self._branches: dict[int, Branch] = {
            line: (region.number, child) for region in self._regions for child, line in enumerate(region.lines)
        }
        self._starts = _by_row((region.start, region) for region in self._regions)
        self._joins = _by_row((region.join, region) for region in self._regions)
        self._tool_names: dict[str, str] = {}
        self._tool_calls = 0

    def events(self) -> Iterator[TraceEvent]:
        """Yield the events of the run."""
        root = next(line for line in self._conversations if self._links.parents[line] is None)
        yield from self._first_forks(root)
        for index in self._numbers:
            branch = self._branches.get(self._links.lines[index])
            for region in self._joins.get(index, ()):
                yield ParallelEnd(region=region.number, branch=branch, branch_path=_display(branch))
            yield from self._gap(index, branch) if self._links.waits[index] else self._late_start(index, branch)
            yield self._call(index, branch)
            for region in self._starts.get(index, ()):
                yield self._fork(region)

    def _first_forks(self, line: int) -> Iterator[ParallelStart]:
        """Yield the forks at the start of the run, those of children after that of their parents."""
        regions: dict[int, list[_Region]] = {}
        for region in self._starts.get(None, ()):
            regions.setdefault(region.parent, []).append(region)
        lines = [line]
        for parent in lines:
            for region in regions.get(parent, ()):
                yield self._fork(region)
                lines += region.lines

    def _fork(self, region: _Region) -> ParallelStart:
        branch = self._branches.get(region.parent)
        return ParallelStart(
            region=region.number, num_branches=len(region.lines), branch=branch, branch_path=_display(branch)
        )

    def _call(self, index: int, branch: Branch | None) -> Call:
        return self._corpus.call(
            index,
            number=self._numbers[index],
            first_ms=self._first_ms,
            conversation=self._conversations[self._links.lines[index]],
            turn=self._links.turns[index],
            duration_ms=self._durations.get(index),
            branch=branch,
        )

    def _find_regions(self) -> list[_Region]:
        """Put children together that one row started and one row, or none, waits for."""
        places: dict[tuple[int, int | None, int | None], list[int]] = {}
        for line in self._conversations:
            if (parent := self._links.parents[line]) is not None:
                places.setdefault((parent, self._links.starts[line], self._links.joins.get(line)), []).append(line)
        self._fidelity.note(BRANCHES, len(self._conversations) - 1)
        return [_Region(number, *place, lines) for number, (place, lines) in enumerate(places.items())]

    def _late_start(self, index: int, branch: Branch | None) -> Iterator[Wait]:
        """Yield the time to a row that waits for nothing, from the start of the run or from what started its line."""
        start = self._links.starts[self._links.lines[index]]
        started_ms = self._first_ms if start is None else self._corpus.rows[start].at_ms
        if start is not None and started_ms is not None:
            started_ms += self._durations.get(start, 0.0)
        late_ms = since(started_ms, self._corpus.rows[index].at_ms)
        if late_ms and not self._links.turns[index]:
            self._fidelity.note(WAITS)
            yield Wait(kind="agent", duration_ms=late_ms, branch=branch, branch_path=_display(branch))

    def _gap(self, index: int, branch: Branch | None) -> Iterator[ToolCall | Wait]:
        """Yield the tools and the wait between the last answer that a row waits for and the row."""
        row, turn = self._corpus.rows[index], self._links.turns[index]
        line = self._links.rows_of[self._links.lines[index]]
        gap = _Gap(row, line[turn - 1] if turn else None, branch)
        answered_ms = since(self._first_ms, None if row.at_ms is None else row.at_ms - gap_ms(row))
        if gap.asking not in self._durations or len(self._links.waits[index]) > 1:
            answered_ms = None
        rest_ms = gap_ms(row)
        for tool, ends_ms in self._tools(gap, answered_ms):
            rest_ms = min(rest_ms, gap_ms(row) - ends_ms)
            yield tool
        if (rest_ms := round(rest_ms, 3)) > 0:
            self._fidelity.note(WAITS)
            yield Wait(
                kind="think" if turn else "agent",
                duration_ms=rest_ms,
                at_ms=None if answered_ms is None else round(answered_ms + gap_ms(row) - rest_ms, 3),
                branch=branch,
                branch_path=_display(branch),
            )

    def _tools(self, gap: _Gap, answered_ms: float | None) -> Iterator[tuple[ToolCall, float]]:
        """Yield tools, and how long after the answer each ends."""
        workflow, room_ms = workflow_of(gap.row), gap_ms(gap.row)
        spans = _placed(workflow.tools, room_ms)
        total_ms = sum(tool.duration_ms for tool in workflow.tools)
        if answered_ms is not None and spans:
            self._fidelity.note(TOOL_ENDS if min(start_ms for _, start_ms in spans) < 0 else TOOLS, len(spans))
            for tool, start_ms in spans:
                at_ms = max(answered_ms + start_ms, 0.0)
                yield self._tool(gap, tool.tool_class, tool.duration_ms, at_ms), start_ms + tool.duration_ms
        elif spans and total_ms <= room_ms:
            self._fidelity.note(TOOLS, len(spans))
            ends_ms = 0.0
            for tool, _ in spans:
                ends_ms += tool.duration_ms
                yield self._tool(gap, tool.tool_class, tool.duration_ms, None), ends_ms
        elif workflow.tool_wait_ms > 0:
            self._fidelity.note(TOOL_GAPS, max(len(spans), 1))
            yield self._tool(gap, "", workflow.tool_wait_ms, None), workflow.tool_wait_ms

    def _tool(self, gap: _Gap, tool_class: str, duration_ms: float, at_ms: float | None) -> ToolCall:
        self._tool_calls += 1
        return ToolCall(
            tool_call_id=f"t{self._tool_calls - 1}",
            tool_name=self._tool_names.setdefault(tool_class, f"tool{len(self._tool_names)}"),
            duration_ms=duration_ms,
            call=None if gap.asking is None else self._numbers[gap.asking],
            at_ms=None if at_ms is None else round(at_ms, 3),
            time_source="client" if tool_class else "gap",
            branch=gap.branch,
            branch_path=_display(gap.branch),
        )


def _by_row(regions: Iterable[tuple[int | None, _Region]]) -> dict[int | None, list[_Region]]:
    found: dict[int | None, list[_Region]] = {}
    for row, region in regions:
        found.setdefault(row, []).append(region)
    return found


@dataclass(frozen=True, slots=True)
class _Gap:
    row: SourceRow
    asking: int | None
    """The row before it in its line."""
    branch: Branch | None


def _placed(tools: Sequence[ToolSpan], room_ms: float) -> list[tuple[ToolSpan, float]]:
    """Return tools with their starts after the answer: the first with it, or so much earlier that all end in time."""
    if not tools:
        return []
    tools = sorted(tools, key=lambda tool: tool.started_ms)
    first_ms = tools[0].started_ms
    extent_ms = max(tool.started_ms - first_ms + tool.duration_ms for tool in tools)
    return [(tool, tool.started_ms - first_ms + min(room_ms - extent_ms, 0.0)) for tool in tools]


def _display(branch: Branch | None) -> tuple[int, ...]:
    return () if branch is None else (branch[1],)
