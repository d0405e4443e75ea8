from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces import Call, Forest, Prefix, SharedPrefix, Trace, normalise, validate
from rotoscope.traces.formats.shared_forest import BlockTree, Row, SharedForest, shared_forest
from rotoscope.traces.model import SharedPrefixLink

BLOCK = 4


def link(of: str, tokens: int) -> SharedPrefixLink:
    return SharedPrefixLink(of, tokens)


def row(session: int, *blocks: int, tail: int = 0, domain: int = 0) -> Row:
    """A prompt of whole blocks; with a tail its last block has only so many tokens."""
    return Row(session, blocks, BLOCK * len(blocks) - (BLOCK - tail if tail else 0), domain)


def brute_force(a: Row, b: Row) -> int:
    """Count common tokens by what the block ids say alone."""
    if a.domain != b.domain:
        return 0
    if a.prompt_tokens == b.prompt_tokens and list(a.block_ids) == list(b.block_ids) and covers_tail(a):
        return a.prompt_tokens
    whole = min(a.prompt_tokens, b.prompt_tokens) // BLOCK
    pairs = zip(a.block_ids[:whole], b.block_ids[:whole], strict=False)
    return BLOCK * next(
        (index for index, (x, y) in enumerate(pairs) if x != y), min(len(a.block_ids), len(b.block_ids), whole)
    )


def covers_tail(row: Row) -> bool:
    return len(row.block_ids) == -(-row.prompt_tokens // BLOCK)


def traces_of(rows: Sequence[Row], forest: SharedForest) -> list[Trace]:
    sessions: list[list[Call]] = [[] for _ in range(max((r.session for r in rows), default=-1) + 1)]
    for r, prefix in zip(rows, forest.prefixes, strict=True):
        number = len(sessions[r.session])
        sessions[r.session].append(
            Call(
                call=number,
                domain=r.domain,
                conversation_id=0,
                message_index=number,
                prompt_tokens=r.prompt_tokens,
                completion_tokens=3,
                prefix=prefix,
            )
        )
    return [
        Trace(
            trace_id="0" * 8,
            campaign="1" * 8,
            token_source="given",
            prefix_granularity=BLOCK,
            outputs="unknown",
            shared_prefixes=forest.shared_prefixes(session),
            events=tuple(calls),
        )
        for session, calls in enumerate(sessions)
    ]


def pooled(rows: Sequence[Row], forest: SharedForest) -> Forest:
    """One forest of all rows, numbered by their place in the file, from those of the sessions."""
    places: list[list[int]] = [[] for _ in range(max((r.session for r in rows), default=-1) + 1)]
    calls = []
    for place, (r, prefix) in enumerate(zip(rows, forest.prefixes, strict=True)):
        places[r.session].append(place)
        of = places[r.session][prefix.of] if isinstance(prefix.of, int) else prefix.of
        calls.append(
            Call(
                call=place,
                conversation_id=0,
                message_index=0,
                prompt_tokens=r.prompt_tokens,
                completion_tokens=3,
                prefix=Prefix(of, prefix.tokens, prefix.source),
            )
        )
    return Forest(forest.groups, calls)


@st.composite
def files(draw: st.DrawFn) -> list[Row]:
    """Prompts that begin alike often; ids are chained in some files only, partial blocks have ids or none."""
    chained, ceil = draw(st.booleans()), draw(st.booleans())
    ids: dict[object, int] = {}
    rows = []
    for _ in range(draw(st.integers(0, 9))):
        session = draw(st.integers(0, 3))
        labels = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
        tail = draw(st.integers(0, BLOCK - 1))
        domain = draw(st.sampled_from([0, 0, 0, 1]))
        tokens = BLOCK * len(labels) - (BLOCK - tail if tail else 0)
        if chained:
            keys = [(*labels[: i + 1], min(tokens, BLOCK * (i + 1)), domain) for i in range(len(labels))]
            blocks = [ids.setdefault(key, len(ids)) for key in keys]
        else:
            blocks = labels
        rows.append(Row(session, blocks if ceil else blocks[: tokens // BLOCK], tokens, domain))
    return rows


@given(files())
def test_what_two_rows_share_follows_from_the_forests_of_their_sessions(rows: list[Row]) -> None:
    forest = shared_forest(rows, BLOCK)
    all_rows = pooled(rows, forest)

    for a, b in combinations(range(len(rows)), 2):
        if rows[a].domain == rows[b].domain:
            assert all_rows.common_prefix(a, b) == brute_force(rows[a], rows[b])


@given(files())
def test_the_traces_of_all_sessions_keep_the_rules_of_the_model(rows: list[Row]) -> None:
    forest = shared_forest(rows, BLOCK)

    for trace in traces_of(rows, forest):
        validate(trace)
        assert normalise(trace) == trace


@given(files())
def test_a_prefix_is_the_longest_that_is_shared_or_that_its_session_had(rows: list[Row]) -> None:
    forest = shared_forest(rows, BLOCK)

    for place, prefix in enumerate(forest.prefixes):
        others = [r for i, r in enumerate(rows) if i < place or r.session != rows[place].session]
        assert prefix.tokens == max((brute_force(rows[place], other) for other in others), default=0)


@given(files())
def test_groups_are_those_prefixes_alone_that_another_session_has_too_and_no_more_than_needed(rows: list[Row]) -> None:
    forest = shared_forest(rows, BLOCK)

    shared = {
        (a.domain, tuple(a.block_ids)[: -(-n // BLOCK)], n)
        for a in rows
        for b in rows
        if a.session != b.session
        for n in ends(brute_force(a, b))
    }
    leaves = [node for node in shared if not any(goes_on(other, node) for other in shared)]
    assert len(forest.groups) == len(leaves)
    assert sorted(group.tokens for group in forest.groups) == sorted(node[2] for node in leaves)
    assert [group.id for group in forest.groups] == [f"s{number}" for number in range(len(leaves))]


def ends(tokens: int) -> list[int]:
    return [*range(BLOCK, tokens, BLOCK), tokens] if tokens else []


def goes_on(node: tuple[int, tuple[int, ...], int], other: tuple[int, tuple[int, ...], int]) -> bool:
    whole = other[2] % BLOCK == 0
    return whole and node[0] == other[0] and node[2] > other[2] and node[1][: len(other[1])] == other[1]


@given(files())
def test_a_session_lists_what_it_names_and_what_that_begins_like(rows: list[Row]) -> None:
    forest = shared_forest(rows, BLOCK)

    for session, groups in enumerate(forest.needed):
        named = {
            p.of for r, p in zip(rows, forest.prefixes, strict=True) if r.session == session and isinstance(p.of, str)
        }
        links = {s.id: s.prefix.of for s in forest.groups if s.prefix}
        while more := {links[name] for name in named if name in links} - named:
            named |= more
        assert {forest.groups[group].id for group in groups} == named


def test_a_fork_of_shared_beginnings_is_an_id_of_its_own_on_the_way_that_was_seen_second() -> None:
    rows = [row(0, 1, 2, 3), row(1, 1, 2, 3), row(2, 1, 5, 6), row(3, 1, 5, 7), row(4, 1, 2, 3, 9)]

    forest = shared_forest(rows, BLOCK)

    assert forest.groups == (
        SharedPrefix("s0", "group", 12),
        SharedPrefix("s1", "group", 8, link("s0", 4)),
    )
    assert [(p.of, p.tokens) for p in forest.prefixes] == [("s0", 12), ("s0", 12), ("s1", 8), ("s1", 8), ("s0", 12)]
    assert forest.needed == ((0,), (0,), (0, 1), (0, 1), (0,))


def test_a_session_extends_itself_where_others_share_less() -> None:
    forest = shared_forest([row(0, 1, 2), row(1, 1, 5), row(0, 1, 2, 3), row(0, 1, 2, 3)], BLOCK)

    assert [(p.of, p.tokens) for p in forest.prefixes] == [("s0", 4), ("s0", 4), (0, 8), (2 - 1, 12)]
    assert forest.groups == (SharedPrefix("s0", "group", 4),)


def test_a_partial_block_is_shared_with_the_same_prompt_only() -> None:
    rows = [row(0, 1, 2, tail=3), row(1, 1, 2, tail=3), row(2, 1, 2, tail=2), row(3, 1, 2)]

    forest = shared_forest(rows, BLOCK)

    assert forest.groups == (SharedPrefix("s0", "group", 7),)
    assert [p.tokens for p in forest.prefixes] == [7, 7, 4, 4]


def test_the_first_id_of_a_file_may_be_a_partial_block() -> None:
    forest = shared_forest([row(0, 7, tail=2), row(1, 7, tail=2)], BLOCK)

    assert [(p.of, p.tokens) for p in forest.prefixes] == [("s0", 2), ("s0", 2)]


def test_domains_share_nothing() -> None:
    forest = shared_forest([row(0, 1, 2), row(1, 1, 2, domain=1), row(2, 1, 2, domain=1), row(3, 1, 2)], BLOCK)

    assert [p.of for p in forest.prefixes] == ["s0", "s1", "s1", "s0"]


def test_a_path_says_what_earlier_prompts_have() -> None:
    tree = BlockTree(BLOCK)
    tree.add((1, 2), 8)

    path = tree.add((1, 2, 3), 11)

    assert (path.known, len(path.nodes)) == (2, 3)
    assert tree.whole_blocks(path, 11) == path.nodes[:2]


def test_a_file_without_rows_has_an_empty_forest() -> None:
    forest = shared_forest([], BLOCK)

    assert (forest.prefixes, forest.groups, forest.needed) == ((), (), ())
