"""Branches of a TensorRT-LLM trace: its paths become (region, index).

A `parallel_start` says how many children its branch gets, not where events of them will stand. Usually that is the
path of the parent with 0, 1, ... appended; controllers may set another path, which is then no child of any branch.

1. A path belongs to the newest open region that has it as a child, or whose parent's path + [i] it is for a child i.
2. Any other path becomes a further child of the newest open region on the longest part of it that has one: at an index
   that is free, or one more when none is.
3. Where no region is open around a path, its events need one on the root that is never joined.

A `parallel_end` closes the newest open region of its branch, and all that was opened inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rotoscope.traces.formats.trtllm_events import Path
from rotoscope.traces.model import Branch


@dataclass(slots=True)
class Region:
    """A fan-out: the branch and path it started on, and its children by path."""

    number: int
    parent: Branch | None
    path: Path
    num_branches: int
    children: dict[Path, int] = field(default_factory=dict)

    def child(self, path: Path) -> Branch:
        """Return the branch of a path, a new one where it has none."""
        if path not in self.children:
            taken = set(self.children.values())
            wanted = path[-1] if path[-1] < self.num_branches else 0
            index = wanted if wanted not in taken else next(i for i in range(len(taken) + 1) if i not in taken)
            self.num_branches = max(self.num_branches, index + 1)
            self.children[path] = index
        return self.number, self.children[path]

    def expects(self, path: Path) -> bool:
        """Say whether a path is one of the children that the fork announced."""
        return path[:-1] == self.path and path[-1] < self.num_branches


@dataclass(slots=True)
class Branches:
    """Follow the forks and joins of a trace in order."""

    regions: list[Region] = field(default_factory=list)
    _open: list[Region] = field(default_factory=list)

    def find(self, path: Path) -> Branch | None:
        """Return the branch of an event, None for the root; raise LookupError where no region for it is open."""
        if not path:
            return None
        for region in reversed(self._open):
            if path in region.children or region.expects(path):
                return region.child(path)
        outer = [region for region in reversed(self._open) if path[: len(region.path)] == region.path]
        if not outer:
            raise LookupError
        return max(outer, key=lambda region: len(region.path)).child(path)

    def fork(self, path: Path, num_branches: int) -> Region:
        """Open a region on the branch of a path."""
        region = Region(len(self.regions), self.find(path), path, num_branches)
        self.regions.append(region)
        self._open.append(region)
        return region

    def join(self, path: Path) -> Region:
        """Close the newest open region that was started on a path; raise LookupError where there is none."""
        region = next((region for region in reversed(self._open) if region.path == path), None)
        if region is None:
            raise LookupError
        self._open = [other for other in self._open if not self._inside(other, region)]
        return region

    def _inside(self, region: Region, outer: Region) -> bool:
        while region is not outer:
            if region.parent is None:
                return False
            region = self.regions[region.parent[0]]
        return True
