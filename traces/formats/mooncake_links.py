"""How the rows of an agentic Mooncake file hang together: lines of turns, what started them, where they join.

Rows are told by their places in the order of their times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rotoscope.traces.formats.mooncake_rows import SourceRow, Workflow


def places_of(rows: Sequence[SourceRow]) -> dict[str, int]:
    """Return the place of each request by its id; raise TraceError where two have one."""
    places: dict[str, int] = {}
    for index, row in enumerate(rows):
        name = workflow_of(row).request_id
        if name in places:
            raise row.error(f"expected an id of its own, found that of line {rows[places[name]].line}", "request_id")
        places[name] = index
    return places


def _waits(rows: Sequence[SourceRow]) -> list[tuple[int, ...]]:
    """Return for each row the places of those that it waits for; all are earlier ones."""
    places = places_of(rows)
    return [tuple(_waited(rows, index, places)) for index in range(len(rows))]


def _waited(rows: Sequence[SourceRow], index: int, places: dict[str, int]) -> Iterator[int]:
    for number, name in enumerate(dict.fromkeys(workflow_of(rows[index]).wait_for)):
        place = places.get(name)
        if place is None:
            raise rows[index].error("expected the request_id of a row, found none that is known", f"wait_for[{number}]")
        if place >= index:
            found = "itself" if place == index else f"that of line {rows[place].line}"
            raise rows[index].error(f"expected a request that was sent before it, found {found}", f"wait_for[{number}]")
        yield place


@dataclass(slots=True)
class Links:
    """How rows hang together. Lines are numbered by their first rows."""

    rows: Sequence[SourceRow]
    waits: list[tuple[int, ...]]
    """By row: the rows it waits for."""
    lines: list[int] = field(default_factory=list)
    """By row."""
    turns: list[int] = field(default_factory=list)
    """By row: its place in its line."""
    rows_of: list[list[int]] = field(default_factory=list)
    """By line."""
    starts: list[int | None] = field(default_factory=list)
    """By line: the row that started it."""
    parents: list[int | None] = field(default_factory=list)
    """By line: that of the row that started it, or one that waits for it though nothing started it."""
    joins: dict[int, int] = field(default_factory=dict)
    """By line: the row before which it joins the line that started it."""
    not_waited: set[int] = field(default_factory=set)
    """Rows that did not wait for the one before them in their line."""
    others: int = 0
    """Waits that neither a line nor a start nor a join says."""

    @classmethod
    def of(cls, rows: Sequence[SourceRow]) -> Links:
        links = cls(rows, _waits(rows))
        links._find_lines()
        links._find_starts()
        links._find_joins()
        links._gather_plays()
        return links

    def runs(self) -> list[int]:
        """Return the run of each row, numbered by their first rows."""
        roots = [self._root(line) for line in range(len(self.rows_of))]
        numbers: dict[int, int] = {}
        return [numbers.setdefault(roots[line], len(numbers)) for line in self.lines]

    def durations(self) -> dict[int, float]:
        """Return how long the answers took that say it, or else whose ends can be told from what followed them."""
        workflows = map(workflow_of, self.rows)
        found = {index: flow.duration_ms for index, flow in enumerate(workflows) if flow.duration_ms is not None}
        return found if self._has_plays else self._told_durations()

    def _told_durations(self) -> dict[int, float]:
        found = {}
        for row, waits in zip(self.rows, self.waits, strict=True):
            if len(waits) == 1 and row.at_ms is not None and gap_ms(row) > 0:
                asked_ms = self.rows[waits[0]].at_ms
                if asked_ms is not None and row.at_ms - gap_ms(row) >= asked_ms:
                    found[waits[0]] = round(row.at_ms - gap_ms(row) - asked_ms, 3)
        return found

    def _find_lines(self) -> None:
        names: dict[str, int] = {}
        for index, row in enumerate(self.rows):
            line = self._line(index, row, names)
            if line == len(self.rows_of):
                self.rows_of.append([])
            elif self.rows_of[line][-1] not in self.waits[index]:
                self.not_waited.add(index)
            self.turns.append(len(self.rows_of[line]))
            self.rows_of[line].append(index)
            self.lines.append(line)

    def _line(self, index: int, row: SourceRow, names: dict[str, int]) -> int:
        if row.session is not None:
            return names.setdefault(row.session, len(self.rows_of))
        if len(self.waits[index]) == 1:
            line = self.rows_of[self.lines[self.waits[index][0]]]
            if self.rows[line[0]].session is None and line[-1] == self.waits[index][0]:
                return self.lines[line[-1]]
        return len(self.rows_of)

    def _find_starts(self) -> None:
        named: dict[str, int] = {}
        for index, row in enumerate(self.rows):
            for child in workflow_of(row).branches:
                named.setdefault(child, index)
        for first, *_ in self.rows_of:
            name = named.get(workflow_of(self.rows[first]).request_id, first)
            starts = [*self.waits[first], *([name] if name < first else [])]
            start = None if name >= first and self._only_joins(first) else max(starts, default=None)
            self.starts.append(start)
            self.parents.append(None if start is None else self.lines[start])

    def _only_joins(self, first: int) -> bool:
        """Whether the first row of a line waits for several that have all ended by then and have nothing in common."""
        lines = {self.lines[index] for index in self.waits[first]}
        roots = {self._root(line) for line in lines}
        return len(roots) > 1 and all(self.rows_of[line][-1] < first for line in lines | roots)

    def _find_joins(self) -> None:
        ends = [rows[-1] for rows in self.rows_of]
        for line, end in enumerate(ends):
            above = self.parents[line]
            while above is not None and ends[above] < end:
                ends[above] = end
                above = self.parents[above]
        for index, waits in enumerate(self.waits):
            for waited in waits:
                if not self._is_implied(index, waited) and not self._joins(index, waited, ends):
                    self.others += 1

    def _is_implied(self, index: int, waited: int) -> bool:
        """Whether a row follows another one on its line, or on one that its line comes from."""
        line = self.lines[index]
        while self.lines[waited] != line:
            start = self.starts[line]
            if start is None or start < waited:
                return False
            line = self.lines[start]
        return True

    def _joins(self, index: int, waited: int, ends: Sequence[int]) -> bool:
        """Join the child in which a row stands before the row that waits for it, if all of it has ended by then.

        What nothing has started is a child from the beginning then, unless the row that waits belongs to it, or was
        itself started later.
        """
        line = self.lines[waited]
        while (parent := self.parents[line]) is not None and parent != self.lines[index]:
            line = parent
        if ends[line] >= index or (parent is None and not self._may_adopt(self.lines[index], line)):
            return False
        self.parents[line] = self.lines[index]
        self.joins.setdefault(line, index)
        return True

    def _may_adopt(self, line: int, root: int) -> bool:
        above: int | None = line
        while above is not None:
            if above == root or self.starts[above] is not None:
                return False
            above = self.parents[above]
        return True

    @property
    def _has_plays(self) -> bool:
        return any(workflow_of(row).play is not None for row in self.rows)

    def _gather_plays(self) -> None:
        """Make what nothing started a child, from the beginning, of the line that its play begins with."""
        roots: dict[str, int] = {}
        for first, *_ in self.rows_of:
            play, root = workflow_of(self.rows[first]).play, self._root(self.lines[first])
            if play is not None and roots.setdefault(play, root) != root:
                self.parents[root] = roots[play]

    def _root(self, line: int) -> int:
        while (parent := self.parents[line]) is not None:
            line = parent
        return line


def gap_ms(row: SourceRow) -> float:
    """Return the time from the last answer that a row waits for to the row."""
    return (row.delay_ms or 0.0) + workflow_of(row).tool_wait_ms


def workflow_of(row: SourceRow) -> Workflow:
    """Return what an agentic row says beside the request; raise TraceError where it is another row."""
    if row.workflow is None:
        raise row.error("required where other rows have it, but not there", "request_id")
    return row.workflow
