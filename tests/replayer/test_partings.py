from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.replayer.partings import Parting, Partings, SharedKey
from rotoscope.testing import CAMPAIGN, make_call, trace_of
from rotoscope.traces import Prefix, SharedPrefix, SharedPrefixLink, Trace, TraceError

S0 = SharedPrefix("s0", "system", 40)
GROUP = SharedPrefix("s1", "group", 60, SharedPrefixLink("s0", 40))
LEAVES_S0 = Prefix("s0", 40, "ids")


def of_session(partings: Partings, session: int) -> dict[int, Parting]:
    return dict(partings.of_session(session))


def test_calls_that_leave_a_call_at_one_token_are_ranked_by_number() -> None:
    fork = Prefix(0, 110, "ids")
    trace = trace_of(
        make_call(0),
        make_call(1, isl=200, prefix=fork),
        make_call(2, isl=200, prefix=Prefix(0, 50, "ids")),
        make_call(3, isl=200, prefix=fork),
    )

    partings = of_session(Partings([trace], sessions=1), 0)

    assert partings[1] == Parting(of=0, tokens=110, rank=0, children=2, ways=2, excludes=False)
    assert partings[2] == Parting(of=0, tokens=50, rank=0, children=1, ways=1, excludes=True)
    assert partings[3] == Parting(of=0, tokens=110, rank=1, children=2, ways=2, excludes=False)


def test_behind_the_end_of_a_stream_only_siblings_must_differ() -> None:
    trace = trace_of(make_call(0, isl=100, osl=20), make_call(1, isl=200, prefix=Prefix(0, 120, "ids")))

    assert of_session(Partings([trace], sessions=1), 0)[1] == Parting(
        of=0, tokens=120, rank=0, children=1, ways=1, excludes=False
    )


def test_those_beside_a_repeated_prompt_have_two_ways() -> None:
    trace = trace_of(
        make_call(0, isl=100),
        make_call(1, isl=50, prefix=Prefix(0, 50, "ids")),
        make_call(2, isl=200, prefix=Prefix(0, 50, "ids")),
    )

    assert of_session(Partings([trace], sessions=1), 0)[2] == Parting(
        of=0, tokens=50, rank=1, children=2, ways=2, excludes=True
    )


def test_references_are_taken_in_normal_form() -> None:
    trace = trace_of(
        make_call(0, isl=100),
        make_call(1, isl=200, prefix=Prefix(0, 60, "ids")),
        make_call(2, isl=200, prefix=Prefix(1, 60, "ids")),
        shared_prefixes=[S0, SharedPrefix("s1", "system", 50, SharedPrefixLink("s0", 30))],
    )
    trace = replace(
        trace, shared_prefixes=(*trace.shared_prefixes, SharedPrefix("s2", "system", 60, SharedPrefixLink("s1", 30)))
    )

    partings = Partings([trace], sessions=1)

    assert of_session(partings, 0)[2].of == 0
    assert of_session(partings, 0)[2].rank == 1
    assert partings.of_shared(SharedKey(CAMPAIGN, "s2"), 0).of == SharedKey(CAMPAIGN, "s0")


def test_a_shared_prefix_is_as_long_as_its_longest_file_says() -> None:
    traces = [trace_of(shared_prefixes=[replace(S0, tokens=tokens)]) for tokens in (30, 50, 40)]

    assert Partings(traces, sessions=1).shared[SharedKey(CAMPAIGN, "s0")].tokens == 50


def test_the_same_id_in_another_campaign_is_another_prefix() -> None:
    traces = [trace_of(shared_prefixes=[S0]), trace_of(shared_prefixes=[S0], campaign="00000000000000bb")]

    assert len(Partings(traces, sessions=1).shared) == 2


@pytest.mark.parametrize(
    "other", [replace(S0, kind="group"), replace(GROUP, id="s0", prefix=SharedPrefixLink("s9", 9))]
)
def test_files_that_disagree_on_a_shared_prefix_are_refused(other: SharedPrefix) -> None:
    parent = SharedPrefix("s9", "system", 9)
    traces = [trace_of(shared_prefixes=[parent, S0]), trace_of(shared_prefixes=[parent, other])]

    with pytest.raises(TraceError, match=r"shared_prefixes\.s0: expected kind and prefix as in another trace"):
        Partings(traces, sessions=2)


def test_groups_and_what_begins_like_them_are_of_a_copy() -> None:
    below = SharedPrefix("s2", "system", 80, SharedPrefixLink("s1", 50))
    shared = Partings([trace_of(shared_prefixes=[S0, GROUP, below])], sessions=1).shared

    assert [stream.by_copy for stream in shared.values()] == [False, True, True]


def preloadable(*shared: SharedPrefix, leaves: list[Prefix], domain: int = 0) -> list[tuple[str, int]]:
    calls = [make_call(number, isl=200, prefix=prefix, domain=domain) for number, prefix in enumerate(leaves)]
    keys = Partings([trace_of(*calls, shared_prefixes=shared)], sessions=1).preloadable()
    return [(key.id, key.domain) for key in keys]


def test_shared_prefixes_of_the_run_are_preloadable_that_calls_begin_with() -> None:
    unused = SharedPrefix("s1", "system", 30)

    assert preloadable(S0, unused, leaves=[LEAVES_S0]) == [("s0", 0)]
    assert preloadable(S0, leaves=[Prefix("s0", 10, "ids")], domain=1) == [("s0", 1)]
    assert preloadable(S0, leaves=[]) == []


def test_a_prefix_with_the_whole_of_which_another_begins_need_not_be_preloaded() -> None:
    longer = SharedPrefix("s1", "system", 60, SharedPrefixLink("s0", 40))
    other = SharedPrefix("s1", "system", 60, SharedPrefixLink("s0", 39))

    for leaves in ([Prefix("s1", 60, "ids")], [LEAVES_S0, Prefix("s1", 60, "ids")]):
        assert preloadable(S0, longer, leaves=leaves) == [("s1", 0)]
        assert preloadable(S0, other, leaves=leaves) == [("s0", 0), ("s1", 0)]


def test_of_a_group_only_what_it_begins_with_is_preloadable() -> None:
    assert preloadable(S0, GROUP, leaves=[Prefix("s1", 60, "ids")]) == [("s0", 0)]


def test_sessions_that_follow_change_no_rank() -> None:
    trace = trace_of(make_call(0), make_call(1, isl=50, prefix=LEAVES_S0), shared_prefixes=[S0, GROUP])
    few, many = Partings([trace, trace], sessions=2), Partings([trace, trace], sessions=9)

    for session in range(2):
        for call in range(2):
            one, other = of_session(few, session)[call], of_session(many, session)[call]
            assert replace(one, children=other.children) == other


def test_places_of_the_run_count_the_children_of_all_sessions() -> None:
    trace = trace_of(make_call(0), make_call(1), make_call(2, isl=50, prefix=LEAVES_S0), shared_prefixes=[S0, GROUP])
    other = trace_of(make_call(0))

    partings = of_session(Partings([trace, other], sessions=5), 0)

    assert partings[0].children == 1 + 3 * 2 + 2 * 1
    assert partings[2].children == 3 + 3


def test_places_of_a_copy_count_the_children_of_its_sessions() -> None:
    trace = trace_of(make_call(0, prefix=Prefix("s1", 60, "ids")), shared_prefixes=[S0, GROUP])

    assert of_session(Partings([trace, trace], sessions=5), 0)[0].children == 2
    assert of_session(Partings([trace, trace], sessions=1), 0)[0].children == 1


def test_streams_that_need_more_codes_than_there_are_ids_are_crowded() -> None:
    trace = trace_of(make_call(0), *(make_call(n, isl=200, prefix=Prefix(0, 110, "ids")) for n in range(1, 5)))
    partings = Partings([trace, trace_of()], sessions=5)

    assert partings.crowded(8) == 0
    assert partings.crowded(7) == 3 * 4
    assert partings.crowded(2) == 3 * 4 + 3


@given(corpora(), st.integers(1, 7))
def test_ranks_at_a_place_are_unique_and_below_the_number_of_children(traces: list[Trace], sessions: int) -> None:
    partings = Partings(traces, sessions)
    ranks: dict[object, list[tuple[int, int]]] = defaultdict(list)
    seen: set[object] = set()

    def by_copy(key: object) -> bool:
        return isinstance(key, SharedKey) and partings.shared[key].by_copy

    for session in range(sessions):
        copy = session // len(traces)
        for key in partings.shared:
            name = (key, copy if by_copy(key) else None)
            if name not in seen:
                seen.add(name)
                parting = partings.of_shared(key, copy)
                place = (parting.of, parting.tokens, copy if by_copy(parting.of) else None)
                ranks[place].append((parting.rank, parting.children))
        for _, parting in partings.of_session(session):
            scope = session if isinstance(parting.of, int) else copy if by_copy(parting.of) else None
            ranks[parting.of, parting.tokens, scope].append((parting.rank, parting.children))

    for found in ranks.values():
        assert len({rank for rank, _ in found}) == len(found)
        assert all(rank < children for rank, children in found)
