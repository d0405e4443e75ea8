"""Upper bounds that hold for all earlier streams, not only for the one that a prompt is named after (trace model, R5).

Prompts that part from one stream at one place may go on alike a little further, and a template that ignores tools,
roles or whitespace may render alike what was sent differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.loose_tree import MOST_COMPARED, START, Alike, LooseTree
from rotoscope.recorder.part_tree import PartNode
from rotoscope.recorder.prefixes import PrefixFinder
from rotoscope.recorder.shared_prefixes import Shared
from rotoscope.recorder.template_bounds import PART_TOKENS


def widen(found: PrefixFinder) -> None:
    """Raise the upper bounds of edges and of links between shared prefixes where they must be."""
    _over_all_streams(found)
    _over_unseen_histories(found)
    _over_shared_prefixes(found)
    _between_siblings(found)
    _over_links(found)


def _over_all_streams(found: PrefixFinder) -> None:
    """Let `high` hold for every earlier stream; of measured prompts only those that were not measured are in doubt."""
    all_streams, unmeasured = _Streams(found), _Streams(found)
    for call in found.run.calls:
        if call.number in found.run.exact:
            unmeasured.raise_bound(call)
        else:
            all_streams.raise_bound(call)
            unmeasured.add(call)
        all_streams.add(call)


def _over_unseen_histories(found: PrefixFinder) -> None:
    """Let `high` hold for streams with a history that only the server has: it may be any other stream's, or its own."""
    seen: defaultdict[int, set[int | None]] = defaultdict(set)
    unmeasured: defaultdict[int, set[int | None]] = defaultdict(set)
    for call in found.run.calls:
        is_exact = call.number in found.run.exact
        unseen = found.run.tree.node(call.head).unseen
        mine = call.path[unseen] if unseen >= 0 else None
        if (unmeasured if is_exact else seen)[call.domain] - {mine}:
            _raise(found, call, found.places.prompt_tokens[call.number])
        seen[call.domain].add(mine)
        if not is_exact:
            unmeasured[call.domain].add(mine)


def _over_shared_prefixes(found: PrefixFinder) -> None:
    """Let `high` hold for shared prefixes of later calls too, which stand before all calls.

    Calls at a root may share any of them; others only one that was measured and is longer than they were known to share.
    """
    exact, firsts = found.run.exact, {shared.first.number for shared in found.shared}
    later, unmeasured, longest_measured = _Streams(found), _Streams(found), 0
    for call in reversed(found.run.calls):
        edge = found.edges[call.number]
        if not isinstance(edge.of, int) or (call.number not in exact and edge.high < longest_measured):
            (unmeasured if call.number in exact else later).raise_bound(call)
        if call.number in firsts:
            later.add(call)
            if call.number not in exact:
                unmeasured.add(call)
            elif (shared := found.shared.of(call)) is not None:
                longest_measured = max(longest_measured, shared.tokens)


def _over_links(found: PrefixFinder) -> None:
    """Let links between shared prefixes hold for all calls from which they lead on."""
    for call in found.run.calls:
        edge = found.edges[call.number]
        shared = found.shared.by_id[edge.of] if isinstance(edge.of, str) else None
        for name in _line(shared):
            link = found.shared.by_id[name]
            if link.first.number not in found.run.exact or call.number not in found.run.exact:
                link.high = max(link.high, edge.high)


class _Streams:
    """Streams as templates may see them: with their system messages, and without, up to the last message of the user."""

    def __init__(self, found: PrefixFinder) -> None:
        self._found = found
        self._parts = found.run.tree
        self._whole: dict[int, LooseTree] = {}
        """By cache domain."""
        self._bodies: dict[int, dict[int, LooseTree]] = {}
        """By cache domain, and by the text id of the system messages."""

    def add(self, call: SeenCall) -> None:
        """Add the stream of a call."""
        last = call.head if call.answer is None else call.answer
        whole = self._whole.setdefault(call.domain, LooseTree(self._parts.text_parents))
        whole.add(call.number, self._parts.node(last).text_id)
        body = self._before_last_user(call)
        if body != START:
            bodies = self._bodies.setdefault(call.domain, {})
            tree = bodies.setdefault(self._system_id(call), LooseTree(self._parts.text_parents))
            tree.add(call.number, body)

    def raise_bound(self, call: SeenCall) -> None:
        """Raise the bound of a call to what it may share with any of the streams."""
        whole = self._whole.get(call.domain)
        if whole is not None:
            self._over_whole(whole.most_alike(self._parts.node(call.head).text_id), call)
        bodies, body, system = self._bodies.get(call.domain, {}), self._before_last_user(call), self._system_id(call)
        if body == START:
            return
        if len(bodies) - (system in bodies) > MOST_COMPARED:
            self._give_up(call)
            return
        for other, tree in bodies.items():
            if other != system:
                self._over_bodies(tree.most_alike(body), call)

    def _over_whole(self, alike: Alike, call: SeenCall) -> None:
        """Compare with streams that end where they are alike one by one, with the others by how they go on."""
        if not alike.are_all:
            self._give_up(call)
            return
        for number in alike.ending:
            other = self._found.run.calls[number]
            if not self._is_exact_repetition(call, other):
                _raise_for(self._found, other, call, self._found.bounds.most(call, other))
        count = self._count(call, lambda node: node.text_id, alike.last)
        for number, text in alike.going_on:
            other = self._found.run.calls[number]
            theirs = self._part(other, lambda node: node.text_id, text)
            _raise_for(self._found, other, call, self._found.bounds.most_behind(call, count, theirs))

    def _over_bodies(self, alike: Alike, call: SeenCall) -> None:
        """Compare with streams that have other system messages, which may be moved behind where they are alike."""
        if alike.last == START:
            return
        if not alike.are_all:
            self._give_up(call)
        bounds = self._found.bounds
        count = self._count(call, lambda node: node.body_id, alike.last)
        for number, body in [*((x, None) for x in alike.ending), *alike.going_on]:
            other = self._found.run.calls[number]
            theirs = None if body is None else self._part(other, lambda node: node.body_id, body)
            moved = PART_TOKENS + min(bounds.leading_tokens(call), bounds.leading_tokens(other))
            _raise_for(self._found, other, call, bounds.most_behind(call, count, theirs) + moved)

    def _give_up(self, call: SeenCall) -> None:
        _raise(self._found, call, self._found.places.prompt_tokens[call.number])

    def _is_exact_repetition(self, call: SeenCall, other: SeenCall) -> bool:
        tokens = self._found.places.prompt_tokens[call.number]
        return other.head == call.head and self._found.edges[call.number].tokens == tokens

    def _system_id(self, call: SeenCall) -> int:
        leading = self._parts.node(call.head).leading
        return self._parts.node(call.path[leading - 1]).text_id if leading else START

    def _before_last_user(self, call: SeenCall) -> int:
        head = self._parts.node(call.head)
        return self._parts.node(call.path[head.last_user - 1]).body_id if head.last_user > head.leading else START

    def _count(self, call: SeenCall, id_of: Callable[[PartNode], int], last: int) -> int:
        """Return how many parts of a prompt there are up to the last with some id."""
        count = len(call.path)
        while count and id_of(self._parts.node(call.path[count - 1])) != last:
            count -= 1
        return count

    def _part(self, call: SeenCall, id_of: Callable[[PartNode], int], wanted: int) -> int:
        """Return the message of a stream that has some id."""
        path = call.path if call.answer is None else (*call.path, call.answer)
        nodes = (self._parts.node(part) for part in reversed(path))
        return next(n.seen.part for n in nodes if id_of(n) == wanted and n.seen.role != "tools")


def _raise_for(found: PrefixFinder, earlier: SeenCall, later: SeenCall, most: int) -> None:
    _raise(found, later, most)
    _raise_between_trees(found, earlier, later, most)


def _raise_between_trees(found: PrefixFinder, earlier: SeenCall, later: SeenCall, most: int) -> None:
    """Raise what two trees have in common: the link of their shared prefixes, and the first edge of a prompt alone."""
    ours, theirs = _line(found.shared.of(later)), _line(found.shared.of(earlier))
    for shared in {*ours} ^ {*theirs}:
        found.shared.by_id[shared].high = max(found.shared.by_id[shared].high, most)
    is_exact = earlier.number in found.run.exact and later.number in found.run.exact
    if ours != theirs and not isinstance(found.edges[earlier.number].of, int) and not is_exact:
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
