from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mooncake_files import chat, lines, read, read_chats, row, span, step, turn

from rotoscope.traces import Call, Forest, Prefix, SharedPrefix, TraceError, Wait, dumps, loads
from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.formats import mooncake_agentic
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake import (
    DELAYS,
    LONGEST_WAITS,
    READ_ASPECTS,
    read_bailian,
    read_mooncake,
)
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.formats.source import Source

FILES = {
    "conversation_trace.jsonl": {
        "rows": 12_031,
        "blocks": 288_500,
        "unique": 182_790,
        "input": 144_793_823,
        "output": 4_122_048,
        "hit_tokens": 54_098_411,
        "D1": 0.36641,
        "D2": 0.37362,
    },
    "synthetic_trace.jsonl": {
        "rows": 3_993,
        "blocks": 121_877,
        "unique": 43_924,
        "input": 61_194_628,
        "output": 595_432,
        "hit_tokens": 39_852_661,
        "D1": 0.63960,
        "D2": 0.65124,
    },
}


def calls(member: Member) -> list[Call]:
    return list(member.trace.calls())


def waits(member: Member) -> list[float]:
    return [event.duration_ms for event in member.trace.events if isinstance(event, Wait)]


def pooled(members: list[Member]) -> tuple[Forest, list[Call]]:
    """All calls of a corpus in its order, numbered by it, in one forest."""
    places: dict[tuple[int, int], int] = {}
    groups: dict[str, SharedPrefix] = {}
    renumbered = []
    for member in members:
        groups |= {shared.id: shared for shared in member.trace.shared_prefixes}
    for place, (index, call) in enumerate(calls_in_order(members)):
        places[index, call.call] = place
        of = places[index, call.prefix.of] if isinstance(call.prefix.of, int) else call.prefix.of
        renumbered.append(
            Call(
                call=place,
                conversation_id=0,
                message_index=0,
                prompt_tokens=call.prompt_tokens,
                completion_tokens=call.completion_tokens,
                prefix=Prefix(of, call.prefix.tokens, "blocks"),
            )
        )
    ordered = sorted(groups.values(), key=lambda shared: int(shared.id[1:]))
    return Forest(ordered, renumbered), renumbered


def hits(members: list[Member]) -> list[int]:
    """Return for each call how many of its tokens some earlier prompt of the corpus had, from the forests alone."""
    forest, ordered = pooled(members)
    best: dict[object, int] = {}
    found = []
    for call in ordered:
        node: object = call.prefix.of
        common, hit = call.prefix.tokens, 0
        while node is not None:
            hit = max(hit, min(common, best.get(node, 0)))
            best[node] = max(best.get(node, 0), min(common, call.prompt_tokens))
            of, tokens = forest.link(node)  # type: ignore[arg-type]  # nodes are numbers and ids
            node, common = of, min(common, tokens)
        best[call.call] = call.prompt_tokens
        found.append(hit)
    return found


def hits_by_ids(rows: Iterable[dict[str, Any]]) -> list[int]:
    """The same from the block ids of the file alone."""
    seen: set[int] = set()
    found = []
    for fields in rows:
        ids = fields["hash_ids"]
        blocks = next((place for place, block in enumerate(ids) if block not in seen), len(ids))
        found.append(min(512 * blocks, fields["input_length"]))
        seen.update(ids)
    return found


@pytest.fixture(scope="module", params=FILES)
def file(request: pytest.FixtureRequest, data_dir: Path) -> tuple[dict[str, Any], list[Member], list[dict[str, Any]]]:
    path = data_dir / "mooncake" / request.param
    members = [trace.member for trace in open_traces([path])]
    return FILES[request.param], members, [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_published_files_have_the_known_rows_blocks_and_tokens(
    file: tuple[dict[str, Any], list[Member], list[dict[str, Any]]],
) -> None:
    known, members, rows = file
    found = [call for _, call in calls_in_order(members)]

    assert len(found) == known["rows"]
    assert sum(call.prompt_tokens for call in found) == known["input"]
    assert sum(call.completion_tokens for call in found) == known["output"]
    assert sum(-(-call.prompt_tokens // 512) for call in found) == known["blocks"]
    assert len({block for fields in rows for block in fields["hash_ids"]}) == known["unique"]
    new_blocks = [-(-c.prompt_tokens // 512) - -(-hit // 512) for c, hit in zip(found, hits(members), strict=True)]
    assert sum(new_blocks) == known["unique"]


def test_the_published_files_have_the_known_hit_rates_of_an_infinite_cache(
    file: tuple[dict[str, Any], list[Member], list[dict[str, Any]]],
) -> None:
    known, members, rows = file

    found = hits(members)

    assert found == hits_by_ids(rows)
    assert sum(found) == known["hit_tokens"]
    assert round(sum(-(-hit // 512) for hit in found) / known["blocks"], 5) == known["D1"]
    assert round(sum(found) / known["input"], 5) == known["D2"]


def test_members_keep_clock_order_and_lengths_of_the_file(
    file: tuple[dict[str, Any], list[Member], list[dict[str, Any]]],
) -> None:
    _, members, rows = file

    found = [
        (members[index].start_ms + call.at_ms, call.prompt_tokens, call.completion_tokens)  # type: ignore[operator]
        for index, call in calls_in_order(members)
    ]

    assert found == [(row["timestamp"], row["input_length"], row["output_length"]) for row in rows]
    assert len({member.trace.campaign for member in members}) == 1
    assert (
        len({member.trace.trace_id for member in members}) == len({member.name for member in members}) == len(members)
    )


def test_turns_of_a_session_wait_for_one_another_and_share_their_blocks_with_no_one(
    file: tuple[dict[str, Any], list[Member], list[dict[str, Any]]],
) -> None:
    _, members, _ = file

    for member in members:
        for before, call in pairwise(calls(member)):
            assert call.at_ms is not None
            assert before.at_ms is not None
            assert before.at_ms < call.at_ms
            assert call.prefix.tokens >= before.prompt_tokens // 512 * 512
        assert len(waits(member)) == len(calls(member)) - 1


def test_each_session_starts_at_zero_and_has_its_place_on_the_clock_and_in_the_order_of_the_file() -> None:
    members = read(row(100, 1, 2), row(130, 5, 6), row(160.5, 1, 2, 3))

    assert [(m.name, m.start_ms, m.ranks) for m in members] == [("0", 100.0, (0, 2)), ("1", 130.0, (1,))]
    assert [[call.at_ms for call in calls(member)] for member in members] == [[0.0, 60.5], [0.0]]
    assert waits(members[0]) == [60.5]


def test_rows_of_one_time_keep_their_order_and_rows_out_of_order_are_put_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = read(row(9, 1, 2), row(0, 3, 4), row(9, 5), row(0, 6))

    assert [call.prefix for _, call in calls_in_order(members)] == [Prefix(None, 0, "blocks")] * 4
    assert [call.prompt_tokens for _, call in calls_in_order(members)] == [1024, 512, 1024, 512]
    assert [member.start_ms for member in members] == [0.0, 0.0, 9.0, 9.0]
    assert "2 x row earlier than the one before it (put in order)" in caplog.text


def test_delays_are_waits_and_times_may_be_missing() -> None:
    fidelity = Fidelity()
    members = read(
        turn("a", 1, at_ms=50, delay=3), turn("a", 1, 2, delay=7.5), turn("a", 1, 2, 4, at_ms=90), fidelity=fidelity
    )

    assert len(members) == 1
    assert (members[0].start_ms, [call.at_ms for call in calls(members[0])]) == (50.0, [0.0, None, 40.0])
    assert waits(members[0]) == [7.5]
    assert "lost delay before a session (1 sessions): there is nothing that it could follow" in fidelity.lines()


def test_waits_that_are_told_are_kept_and_others_are_the_longest_there_can_be() -> None:
    fidelity = Fidelity()

    read(turn("a", 1, at_ms=0), turn("a", 1, 2, at_ms=9, delay=7), turn("a", 1, 3, at_ms=20), fidelity=fidelity)

    assert (fidelity.counts[DELAYS], fidelity.counts[LONGEST_WAITS]) == (1, 1)


def test_a_file_without_times_has_sessions_in_the_order_of_its_rows() -> None:
    members = read(turn("a", 1), turn("b", 1), turn("a", 1, 2, delay=5))

    assert [(member.start_ms, member.ranks) for member in members] == [(None, (0, 2)), (None, (1,))]


def test_names_of_requests_alone_make_no_agentic_file() -> None:
    plain = read(step("a", None, 1, 2), step("b", None, 1, 2, 3, at_ms=9))
    told = read(step("a", "s", 1, 2), step("b", "s", 1, 5, at_ms=9, delay=4))

    assert [waits(member) for member in plain] == [[9.0]]
    assert [waits(member) for member in told] == [[4.0]]


def test_a_session_that_goes_back_in_time_is_an_error() -> None:
    with pytest.raises(TraceError, match="x:3: timestamp: expected at least the time of line 1"):
        read(turn("a", 1, at_ms=5), turn("b", 1, at_ms=0), turn("a", 1, 2, at_ms=4))


def test_a_clock_that_counts_from_1970_is_counted_from_the_first_row() -> None:
    members = read(row(1_764_000_000_500, 1), row(1_764_000_000_000, 2))

    assert [member.start_ms for member in members] == [0.0, 500.0]


def test_times_that_are_too_far_apart_are_an_error() -> None:
    with pytest.raises(TraceError, match="x:2: timestamp: expected a time at most"):
        read(row(1, 1), row(1_764_000_000_000, 2))


def test_a_row_without_block_ids_may_share_anything() -> None:
    members = read({"timestamp": 0, "input_length": 700, "output_length": 2}, row(1, 1))

    assert [call.prefix for _, call in calls_in_order(members)] == [
        Prefix(None, 0, "opaque", high=700),
        Prefix(None, 0, "blocks"),
    ]


def test_models_are_cache_domains() -> None:
    members = read(row(0, 1, 2, model="a"), row(0, 1, 2, model="b"), row(0, 1, 2, model="b"))

    assert [(call.domain, call.prefix.of) for _, call in calls_in_order(members)] == [(0, None), (1, "s0"), (1, "s0")]


def test_two_files_that_say_the_same_in_other_ids_have_one_campaign_and_others_have_not() -> None:
    first = read(row(0, 1, 2), row(0, 1, 3))

    assert read(row(0, 77, 5), row(0, 77, -3)) == first
    for other in ([row(0, 1, 2), row(0, 4, 3)], [row(0, 1, 2), row(1, 1, 3)], [row(0, 1, 2), row(0, 1, 3, out=11)]):
        assert read(*other)[0].trace.campaign != first[0].trace.campaign


def test_chats_of_bailian_are_sessions_in_whatever_order_their_rows_stand() -> None:
    rows = [chat(7, -1, 1.5, 1, 2), chat(8, -1, 2, 1, 5), chat(9, 7, 61.114, 1, 2, 3, tail=4)]

    members, turned = (read_bailian(Source.of_bytes(lines(*order)), Fidelity()) for order in (rows, reversed(rows)))

    assert turned == members


def test_chats_of_bailian_are_sessions_with_waits_in_milliseconds() -> None:
    members = read_chats(chat(7, -1, 1.5, 1, 2), chat(8, -1, 2, 1, 5), chat(9, 7, 61.114, 1, 2, 3))

    assert [(member.start_ms, waits(member)) for member in members] == [(1500.0, [59614.0]), (2000.0, [])]
    assert members[0].trace.prefix_granularity == 16
    assert [(call.prefix.of, call.prefix.tokens) for call in calls(members[0])] == [("s0", 16), (0, 32)]


AGENTIC = [
    step("p1", "root", 1, branches=["c1"], prefix_reset=True),
    step("c1", "child", 3, 4, at_ms=200, after=["p1"], delay=100.0),
    step(
        *("p2", "root", 1, 2),
        at_ms=500,
        after=["p1", "c1"],
        delay=150.0,
        tool_wait_ms=50.0,
        tool_events=[span("ls", 1150, 50)],
    ),
    step("p3", None, 1, 2, 5, at_ms=900, after=["p2"], delay=1.0),
]
SAMPLES = {
    "mooncake": [row(0, 1, 2, tail=9), row(0, 1, 4), row(5, 1, 2, 7), row(7, 1, 4, 8), row(8, 1, 4, 8)],
    "sessions": [turn("a", 1, 2, at_ms=1), turn("b", 1, 3), turn("a", 1, 2, 4, delay=7), turn("b", 1, 3, delay=0.5)],
    "agentic": AGENTIC,
    "bailian": [chat(7, -1, 1.5, 1, 2), chat(8, -1, 2, 1, 5), chat(9, 7, 61.114, 1, 2, 3, tail=4)],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_becomes_of_a_file_is_declared(name: str) -> None:
    fidelity = Fidelity()
    reader = read_bailian if name == "bailian" else read_mooncake

    reader(Source.of_bytes(lines(*SAMPLES[name])), fidelity)

    assert len(fidelity.counts) > 3
    assert set(fidelity.counts) <= set(mooncake_agentic.READ_ASPECTS if name == "agentic" else READ_ASPECTS)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 1100),
    st.sampled_from([2**31 - 1, 2**31, 2**63, 2e11, 1e16, 10**30, 0.5, -0.5, 1e308, "", "a", "p1", "c1", "p2", [], {}]),
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.sampled_from(["p1", "p2", "p3", "c1"]), max_size=3),
)


@pytest.mark.parametrize("name", SAMPLES)
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), VALUES), min_size=1, max_size=4))
def test_whatever_is_changed_in_a_file_it_is_a_corpus_or_one_clear_error(
    name: str, changes: list[tuple[int, object]]
) -> None:
    rows = copy.deepcopy(SAMPLES[name])
    for which, value in changes:
        places = [(container, key) for fields in rows for container, key in all_places(fields)]
        container, key = places[which % len(places)]
        container[key] = copy.deepcopy(value)
    reader = read_bailian if name == "bailian" else read_mooncake

    members, error = [], ""
    try:
        members = reader(Source.of_bytes(lines(*rows), "x"), Fidelity())
    except TraceError as caught:
        error = str(caught)

    if error:
        assert error.startswith("x:")
        assert "\n" not in error
    else:
        assert Counter(rank for member in members for rank in member.ranks or ()) == Counter(range(len(rows)))
        for member in members:
            assert loads(dumps(member.trace)) == member.trace


def all_places(value: Any) -> Iterable[tuple[Any, Any]]:
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from all_places(item)


def test_times_of_a_session_that_begins_without_one_are_lost_and_said_to_be() -> None:
    fidelity = Fidelity()

    one, two = read(
        turn("a", 1), turn("b", 5, at_ms=0), turn("a", 1, 2, at_ms=5), turn("b", 5, 6, at_ms=9), fidelity=fidelity
    )

    assert [call.at_ms for call in one.trace.calls()] == [None, None]
    assert [call.at_ms for call in two.trace.calls()] == [0, 9]
    assert [line.partition(")")[0] for line in fidelity.lines() if "arrival times" in line] == [
        "kept arrival times and order (2 calls",
        "lost arrival times (1 calls",
    ]
