from __future__ import annotations

import pytest

from rotoscope.traces.formats.trtllm_branches import Branches


def test_the_children_of_a_fork_are_its_path_with_an_index() -> None:
    branches = Branches()
    branches.fork((), 2)
    branches.fork((1,), 2)

    assert [branches.find(path) for path in [(), (0,), (1,), (1, 1), (1, 0)]] == [None, (0, 0), (0, 1), (1, 1), (1, 0)]


def test_a_path_belongs_to_the_newest_region_that_announced_it() -> None:
    branches = Branches()
    branches.fork((), 3)
    assert branches.find((0,)) == (0, 0)
    branches.fork((), 2)

    assert [branches.find(path) for path in [(0,), (1,), (2,)]] == [(1, 0), (1, 1), (0, 2)]


def test_a_path_of_its_own_takes_a_free_index_and_keeps_it() -> None:
    branches = Branches()
    region = branches.fork((), 2)

    found = [branches.find(path) for path in [(7, 7), (5,), (1_000_000_000,), (7, 7)]]

    assert found == [(0, 0), (0, 1), (0, 2), (0, 0)]
    assert region.num_branches == 3


def test_an_announced_child_whose_index_is_taken_gets_another() -> None:
    branches = Branches()
    branches.fork((), 2)
    branches.find((9,))

    assert [branches.find((0,)), branches.find((1,))] == [(0, 1), (0, 2)]


def test_a_path_of_its_own_belongs_to_the_region_nearest_to_it() -> None:
    branches = Branches()
    branches.fork((), 1)
    branches.fork((0,), 1)

    assert [branches.find((0, 5)), branches.find((5, 0))] == [(1, 0), (0, 1)]


def test_a_path_keeps_its_branch_when_a_nearer_region_opens() -> None:
    branches = Branches()
    branches.fork((), 1)
    before = branches.find((0, 5))
    branches.fork((0,), 1)

    assert branches.find((0, 5)) == before == (0, 0)


def test_without_an_open_region_there_is_no_branch() -> None:
    branches = Branches()
    branches.fork((), 1)
    branches.join(())

    with pytest.raises(LookupError):
        branches.find((0,))


def test_a_join_closes_what_was_opened_inside_and_nothing_else() -> None:
    branches = Branches()
    branches.fork((), 2)
    branches.fork((0,), 1)
    branches.fork((0, 0), 1)
    branches.fork((1,), 1)

    assert branches.join((0,)).number == 1
    assert branches.find((1, 0)) == (3, 0)
    with pytest.raises(LookupError):
        branches.join((0, 0))


def test_a_join_of_one_path_closes_its_newest_region() -> None:
    branches = Branches()
    branches.fork((), 1)
    branches.fork((), 1)

    assert [branches.join(()).number, branches.join(()).number] == [1, 0]
