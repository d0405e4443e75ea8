"""The prefix forest of many sessions whose block ids mean the same in all of them.

Where the streams of two sessions begin alike, both begin like a shared prefix of kind `group` (R7): then what two calls
of different sessions have in common follows from the forests of their sessions alone.

1. `BlockTree` adds the prompts of a file in their order; a node is a beginning of a prompt that ends with one of its
   blocks. A partial last block is the same only where both prompts end in it at the same length, and then the whole
   prompts are equal (R6).
2. A node that prompts of two sessions pass is shared, and so are all before it. The shared nodes are a tree; each of its
   leaves needs an id, and no more are made: from a fork the way that was seen first keeps the id, every other way is an
   id of its own that begins like the first.
3. The prefix of a prompt ends with its last node that is shared or that an earlier prompt has. The latter is one of its
   own session where the former is shorter.

Every cache domain has a tree of its own, so that its shared prefixes are its own too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.model import Prefix, SharedPrefix, SharedPrefixLink

_Edge: TypeAlias = tuple[int, int, int]
"""From a node, by an id, to a node that ends after so many tokens."""

_NO_BLOCK = Prefix(None, 0, "blocks")


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt of a file."""

    session: int
    """Dense number of its session; the prompts of a session are its calls 0, 1, ... in the order of the file."""
    block_ids: Sequence[int]
    """One a block, in order; the partial last block may have none."""
    prompt_tokens: int
    domain: int = 0


@dataclass(frozen=True, slots=True)
class Path:
    """A prompt in the tree."""

    nodes: array[int]
    """One a block."""
    known: int
    """How many of them an earlier prompt has."""


@dataclass(slots=True)
class BlockTree:
    """The prompts of a file, block by block.

    In most files an id stands for all that a prompt holds up to the end of its block, so that it leads to one node; what
    is found under it is checked all the same, and an id that leads to several nodes is looked up with its place.
    """

    block_size: int
    paths: list[Path] = field(default_factory=list)
    """By row."""
    parents: array[int] = field(default_factory=lambda: array("q"))
    """By node; below 0 where a node is a first block."""
    ends: array[int] = field(default_factory=lambda: array("q"))
    """By node: how many tokens of a prompt end with it."""
    _nodes: dict[int, int] = field(default_factory=dict)
    """The first node of an id."""
    _others: dict[_Edge, int] = field(default_factory=dict)

    def add(self, block_ids: Sequence[int], prompt_tokens: int, domain: int = 0) -> Path:
        """Add the next prompt."""
        known = self._known(block_ids, prompt_tokens, -1 - domain)
        new = self._new(block_ids[len(known) :], prompt_tokens, known, -1 - domain)
        nodes = array("q", known)
        nodes.extend(new)
        self.paths.append(Path(nodes, len(known)))
        return self.paths[-1]

    def whole_blocks(self, path: Path, prompt_tokens: int) -> array[int]:
        """Return the nodes of a path that end with a whole block."""
        return path.nodes[: prompt_tokens // self.block_size]

    def _known(self, block_ids: Sequence[int], prompt_tokens: int, root: int) -> list[int]:
        """Return the nodes that the tree has already."""
        parent, end, nodes = root, 0, []
        known, parents, ends = self._nodes, self.parents, self.ends
        for block in block_ids:
            end = min(end + self.block_size, prompt_tokens)
            node = known.get(block)
            if node is not None and (parents[node] != parent or ends[node] != end):
                node = self._others.get((parent, block, end))
            if node is None:
                break
            nodes.append(node)
            parent = node
        return nodes

    def _new(self, block_ids: Sequence[int], prompt_tokens: int, known: list[int], root: int) -> range:
        """Add nodes behind those that are known."""
        first = len(self.ends)
        nodes = range(first, first + len(block_ids))
        if nodes:
            self.parents.append(known[-1] if known else root)
            self.parents.extend(nodes[:-1])
            end, last = self.block_size * len(known), self.block_size * (len(known) + len(nodes))
            self.ends.extend(range(end + self.block_size, last, self.block_size))
            self.ends.append(min(last, prompt_tokens))
        for node, block in zip(nodes, block_ids, strict=True):
            if self._nodes.setdefault(block, node) != node:
                self._others[self.parents[node], block, self.ends[node]] = node
        return nodes


@dataclass(frozen=True, slots=True)
class SharedForest:
    """The prefixes of all sessions of a file."""

    prefixes: tuple[Prefix, ...]
    """By row: like an earlier call of its session, which is named by its number there, or like a shared prefix."""
    groups: tuple[SharedPrefix, ...]
    """What two sessions or more begin with; `s0`, `s1`, ..., each behind the one it begins like."""
    needed: tuple[tuple[int, ...], ...]
    """By session: which groups it needs, with those that these begin like."""

    def shared_prefixes(self, session: int) -> tuple[SharedPrefix, ...]:
        """Return the shared prefixes of a session."""
        return tuple(self.groups[group] for group in self.needed[session])


def shared_forest(rows: Iterable[Row], block_size: int) -> SharedForest:
    """Return the forest of rows in the order of the file."""
    tree, sessions = BlockTree(block_size), []
    for row in rows:
        tree.add(row.block_ids, row.prompt_tokens, row.domain)
        sessions.append(row.session)
    return forest_of(tree, sessions)


def forest_of(tree: BlockTree, sessions: Sequence[int]) -> SharedForest:
    """Return the forest of the prompts of a tree, whose sessions are given by row."""
    owners = Owners.of(tree, sessions)
    names, groups, ancestors = _groups(tree, owners.shared)
    needed: list[set[int]] = [set() for _ in range(max(sessions, default=-1) + 1)]
    prefixes = []
    for path, session in zip(tree.paths, sessions, strict=True):
        common = owners.shared_length(path.nodes)
        if common >= path.known:
            prefix = _NO_BLOCK
            if common:
                node = path.nodes[common - 1]
                prefix = Prefix(f"s{names[node]}", tree.ends[node], "blocks")
                needed[session].update(ancestors[names[node]])
        else:
            node = path.nodes[path.known - 1]
            prefix = Prefix(owners.calls[node], tree.ends[node], "blocks")
        prefixes.append(prefix)
    return SharedForest(tuple(prefixes), groups, tuple(tuple(sorted(ids)) for ids in needed))


@dataclass(slots=True)
class Owners:
    """Whose the nodes of a tree are, as far as its rows have been added."""

    calls: list[int] = field(default_factory=list)
    """By node: the first call that has it, by its number in its session."""
    sessions: list[int] = field(default_factory=list)
    """By node: the session of that call."""
    shared: bytearray = field(default_factory=bytearray)
    """By node: whether another session has it too."""

    @classmethod
    def of(cls, tree: BlockTree, sessions: Sequence[int]) -> Owners:
        """Add all rows of a tree, whose sessions are given by row."""
        owners = cls()
        numbers = [0] * (max(sessions, default=-1) + 1)
        for path, session in zip(tree.paths, sessions, strict=True):
            owners.add(path, session, numbers[session])
            numbers[session] += 1
        return owners

    def add(self, path: Path, session: int, call: int) -> None:
        """Add the next row; what is not shared so far below a node that is not shared belongs to one session."""
        for node in reversed(path.nodes[: path.known]):
            if self.shared[node] or self.sessions[node] == session:
                break
            self.shared[node] = True
        new = len(path.nodes) - path.known
        self.calls += [call] * new
        self.sessions += [session] * new
        self.shared += bytes(new)

    def shared_length(self, nodes: Sequence[int]) -> int:
        """Return how many leading nodes of a path are shared."""
        return bisect_left(nodes, True, key=lambda node: not self.shared[node])


def _groups(
    tree: BlockTree, shared: bytearray
) -> tuple[dict[int, int], tuple[SharedPrefix, ...], list[tuple[int, ...]]]:
    """Return the group that each shared node belongs to, the groups, and of each itself and all that it begins like."""
    names: dict[int, int] = {}
    last: list[int] = []
    links: list[SharedPrefixLink | None] = []
    ancestors: list[tuple[int, ...]] = []
    for node in (node for node in range(len(shared)) if shared[node]):
        parent = tree.parents[node]
        if parent >= 0 and last[names[parent]] == parent:
            names[node] = names[parent]
            last[names[node]] = node
            continue
        names[node] = len(last)
        last.append(node)
        links.append(None if parent < 0 else SharedPrefixLink(f"s{names[parent]}", tree.ends[parent]))
        ancestors.append((*(ancestors[names[parent]] if parent >= 0 else ()), names[node]))
    groups = tuple(
        SharedPrefix(f"s{number}", "group", tree.ends[node], link)
        for number, (node, link) in enumerate(zip(last, links, strict=True))
    )
    return names, groups, ancestors
