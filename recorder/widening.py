"""Upper bounds that hold for all earlier streams, not only for the one that a prompt is named after (trace model, R5).

Prompts that part from one stream at one place may go on alike a little further, and a template that ignores tools,
roles or whitespace may render alike what was sent differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.loose_tree import LooseTree
from rotoscope.recorder.prefixes import PrefixFinder
from rotoscope.recorder.shared_prefixes import Shared

MOST_COMPARED = 64
"""So many prompts that part at one place are compared with one another; of more, each with the first and the last."""


def widen(found: PrefixFinder) -> None:
    """Raise the upper bounds of edges and of links between shared prefixes where they must be."""
    _over_all_streams(found)
    _between_siblings(found)


def _over_all_streams(found: PrefixFinder) -> None:
    """Let `high` hold for every earlier stream; of measured prompts only those that were not measured are in doubt."""
    exact = found.run.exact
    tree = found.run.tree
    trees: defaultdict[tuple[int, bool], LooseTree] = defaultdict(lambda: LooseTree(tree.text_parents))
    for call in found.run.calls:
        _over_streams_in(trees[call.domain, call.number in exact], found, call)
        last = tree.node(call.head if call.answer is None else call.answer).text_id
        trees[call.domain, False].add(call.number, last)
        if call.number not in exact:
            trees[call.domain, True].add(call.number, last)


def _over_streams_in(tree: LooseTree, found: PrefixFinder, call: SeenCall) -> None:
    alike = tree.most_alike(found.run.tree.node(call.head).text_id)
    if not alike.are_all:
        _raise(found, call, found.places.prompt_tokens[call.number])
    for number in alike.calls:
        other = found.run.calls[number]
        if other.head == call.head and found.edges[call.number].tokens == found.places.prompt_tokens[call.number]:
            continue
        most = found.bounds.most(call, other)
        _raise(found, call, most)
        _raise_between_trees(found, other, call, most)


def _raise_between_trees(found: PrefixFinder, earlier: SeenCall, later: SeenCall, most: int) -> None:
    """Raise what two trees have in common: the link of their shared prefixes, and the first edge of a prompt alone."""
    ours, theirs = _line(found.shared.of(later)), _line(found.shared.of(earlier))
    for shared in {*ours} ^ {*theirs}:
        found.shared.by_id[shared].high = max(found.shared.by_id[shared].high, most)
    if ours != theirs and not isinstance(found.edges[earlier.number].of, int) and earlier.number not in found.run.exact:
        _raise(found, earlier, most)


def _between_siblings(found: PrefixFinder) -> None:
    groups: defaultdict[tuple[int, str], list[SeenCall]] = defaultdict(list)
    for call in found.run.calls:
        edge = found.edges[call.number]
        if edge.of is not None:
            groups[id(edge.place), str(edge.of)].append(call)
    for calls in groups.values():
        for index, later in enumerate(calls):
            for earlier in _compared(calls[:index]):
                _raise_siblings(found, earlier, later)


def _raise_siblings(found: PrefixFinder, earlier: SeenCall, later: SeenCall) -> None:
    exact = found.run.exact
    if earlier.number in exact and later.number in exact:
        return
    most = found.bounds.most(later, earlier)
    _raise(found, later, most)
    if earlier.number not in exact:
        _raise(found, earlier, most)


def _raise(found: PrefixFinder, call: SeenCall, most: int) -> None:
    edge = found.edges[call.number]
    edge.high = max(edge.high, min(most, found.places.prompt_tokens[call.number]))


def _line(shared: Shared | None) -> list[str]:
    """Return the ids of a shared prefix and of those that it begins like."""
    line = []
    while shared is not None:
        line.append(shared.id)
        shared = shared.of
    return line


def _compared(calls: Sequence[SeenCall]) -> Sequence[SeenCall]:
    half = MOST_COMPARED // 2
    return calls if len(calls) <= MOST_COMPARED else [*calls[:half], *calls[-half:]]
