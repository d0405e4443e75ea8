from __future__ import annotations

from rotoscope.recorder.loose_tree import MOST_BRANCHES, LooseTree

#        0 - 1 - 2
#          \ 3 - 4
PARENTS = [-1, 0, 1, 0, 3, -1]


def test_calls_on_every_way_on_from_the_last_common_message_are_returned() -> None:
    tree = LooseTree(PARENTS)
    tree.add(0, 2)
    tree.add(1, 4)

    assert tree.most_alike(2).calls == [0]
    assert tree.most_alike(0).calls == [0, 1]
    assert tree.most_alike(5).calls == [0]


def test_only_the_first_call_of_a_way_is_returned() -> None:
    tree = LooseTree(PARENTS)
    tree.add(7, 2)
    tree.add(8, 2)

    assert tree.most_alike(1).calls == [7]


def test_nothing_is_like_anything_at_first() -> None:
    assert LooseTree(PARENTS).most_alike(2).calls == []


def test_too_many_ways_are_told() -> None:
    tree = LooseTree([-1] * (MOST_BRANCHES + 2))
    for text in range(MOST_BRANCHES + 1):
        tree.add(text, text)

    alike = tree.most_alike(MOST_BRANCHES + 1)
    assert (len(alike.calls), alike.are_all) == (MOST_BRANCHES, False)
