from __future__ import annotations

from rotoscope.recorder.loose_tree import MOST_COMPARED, START, LooseTree

#        0 - 1 - 2
#          \\ 3 - 4
PARENTS = [-1, 0, 1, 0, 3, -1]


def test_streams_are_found_where_they_part_from_a_prompt() -> None:
    tree = LooseTree(PARENTS)
    tree.add(0, 2)
    tree.add(1, 4)
    alike = tree.most_alike(0)

    assert (alike.last, alike.ending, alike.going_on) == (0, [], [(0, 1), (1, 3)])


def test_streams_are_found_where_they_end() -> None:
    tree = LooseTree(PARENTS)
    tree.add(7, 1)
    tree.add(8, 1)
    alike = tree.most_alike(2)

    assert (alike.last, alike.ending, alike.going_on) == (1, [7, 8], [])


def test_only_the_first_stream_stands_for_a_way() -> None:
    tree = LooseTree(PARENTS)
    tree.add(7, 2)
    tree.add(8, 2)

    assert tree.most_alike(1).going_on == [(7, 2)]


def test_a_prompt_like_no_other_parts_at_the_start() -> None:
    tree = LooseTree(PARENTS)
    tree.add(7, 2)
    alike = tree.most_alike(5)

    assert (alike.last, alike.ending, alike.going_on) == (START, [], [(7, 0)])


def test_too_many_streams_are_told() -> None:
    tree = LooseTree([-1] * (MOST_COMPARED + 2))
    for text in range(MOST_COMPARED + 1):
        tree.add(text, text)
    alike = tree.most_alike(MOST_COMPARED + 1)

    assert (len(alike.going_on), alike.are_all) == (MOST_COMPARED, False)
