"""What publishing keeps and what it takes away, on traces of every shape."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import corpora, grown_by, traces

from rotoscope.traces.audit import audit
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.corpus import Member
from rotoscope.traces.forest import Forest, Node, normalise
from rotoscope.traces.formats.recognise import LabelledTrace, open_traces
from rotoscope.traces.model import Call, Trace
from rotoscope.traces.publish import PublishOptions, publish, published_members
from rotoscope.traces.publish_lengths import rounded
from rotoscope.traces.publish_times import rebased
from rotoscope.traces.reader import loads
from rotoscope.traces.validation import validate
from rotoscope.traces.writer import dumps

STEPS = st.sampled_from([16, 64])
SIZES = st.sampled_from([1, 3, 7, 16, 29])
"""By which the lengths of small traces are multiplied, so that some are far below a step and some are above."""


@st.composite
def sized_traces(draw: st.DrawFn) -> Trace:
    return uneven(draw(traces()), draw(SIZES))


def uneven(trace: Trace, factor: int) -> Trace:
    return normalise(grown_by(trace, factor))


def members_of(drawn: Sequence[Trace]) -> list[Member]:
    return [Member(name=str(number), trace=trace) for number, trace in enumerate(drawn)]


def nodes(trace: Trace) -> list[Node]:
    return [*(one.id for one in trace.shared_prefixes), *(call.call for call in trace.calls())]


def common(trace: Trace) -> list[int]:
    """Return the common prefix of every two streams, in the order of the file."""
    forest = Forest.of_trace(trace)
    return [forest.common_prefix(a, b) for a, b in combinations(nodes(trace), 2)]


def lengths(trace: Trace) -> Iterator[tuple[int, ...]]:
    yield from ((one.tokens,) for one in trace.shared_prefixes)
    yield from ((call.prompt_tokens, call.completion_tokens, call.reasoning_tokens) for call in trace.calls())


@settings(max_examples=30)
@given(corpora())
def test_without_rounding_the_common_prefixes_and_lengths_stay(drawn: list[Trace]) -> None:
    before = members_of(drawn)
    after = published_members(before, PublishOptions())

    for one, other in zip(before, after, strict=True):
        validate(other.trace)
        assert common(other.trace) == common(one.trace)
        assert list(lengths(other.trace)) == list(lengths(one.trace))


@settings(max_examples=30)
@given(corpora(), STEPS)
def test_traces_of_one_campaign_share_the_same_prefixes_and_tools_as_before(drawn: list[Trace], step: int) -> None:
    after = published_members(members_of(drawn), PublishOptions(round_tokens=step))

    assert len({member.trace.campaign for member in after}) == 1
    names: dict[tuple[str, str], str] = {}
    for one, member in zip(drawn, after, strict=True):
        for old, new in zip(one.shared_prefixes, member.trace.shared_prefixes, strict=True):
            assert names.setdefault((one.campaign, old.id), new.id) == new.id
    assert sorted(names.values(), key=lambda name: int(name[1:])) == [f"s{number}" for number in range(len(names))]


@settings(max_examples=30)
@given(sized_traces(), STEPS)
def test_rounding_gives_a_valid_trace_whose_common_prefixes_move_by_less_than_a_step(trace: Trace, step: int) -> None:
    after = rounded(trace, step)

    validate(after)
    assert all(abs(new - old) < step for old, new in zip(common(trace), common(after), strict=True))
    for old, new in zip(trace.calls(), after.calls(), strict=True):
        assert abs(new.prompt_tokens - old.prompt_tokens) < step
        assert abs(new.stream_tokens - old.stream_tokens) < step
        assert bool(new.completion_tokens) == bool(old.completion_tokens)
        assert bool(new.reasoning_tokens) == bool(old.reasoning_tokens)
        assert bool(new.prefix.tokens) == bool(old.prefix.tokens)


@settings(max_examples=30)
@given(sized_traces(), STEPS)
def test_partings_on_one_stream_may_merge_but_never_cross(trace: Trace, step: int) -> None:
    before, after = Forest.of_trace(trace), Forest.of_trace(rounded(trace, step))

    for stream in nodes(trace):
        places = [(before.stream_tokens(stream), after.stream_tokens(stream))]
        places += [(before.common_prefix(stream, x), after.common_prefix(stream, x)) for x in nodes(trace)]
        for (old, new), (later_old, later_new) in pairwise(sorted(places)):
            assert new <= later_new
            assert new == later_new or old < later_old


@settings(max_examples=30)
@given(sized_traces(), STEPS)
def test_a_stream_that_is_taken_up_whole_still_is(trace: Trace, step: int) -> None:
    after = {call.call: call for call in rounded(trace, step).calls()}
    forest = Forest.of_trace(rounded(trace, step))

    for call in trace.calls():
        if isinstance(call.prefix.of, int):
            of = next(one for one in trace.calls() if one.call == call.prefix.of)
            if call.prefix.tokens == of.stream_tokens:
                assert forest.common_prefix(call.call, of.call) == after[of.call].stream_tokens
            if call.prefix.tokens == of.prompt_tokens:
                assert forest.common_prefix(call.call, of.call) == after[of.call].prompt_tokens


@st.composite
def bounded_traces(draw: st.DrawFn) -> Trace:
    """Draw traces whose prefixes have bounds."""
    trace = draw(sized_traces())

    def bounded(call: Call) -> Call:
        prefix = call.prefix
        low = draw(st.none() | st.integers(0, prefix.tokens))
        high = draw(st.none() | st.integers(prefix.tokens, call.prompt_tokens))
        return replace(call, prefix=replace(prefix, low=low, high=high))

    events = tuple(bounded(one) if isinstance(one, Call) else one for one in trace.events)
    return replace(trace, events=events)


@settings(max_examples=30)
@given(bounded_traces(), STEPS)
def test_bounds_stay_around_what_they_bound(trace: Trace, step: int) -> None:
    after = rounded(trace, step)

    validate(after)
    for old, new in zip(trace.calls(), after.calls(), strict=True):
        if old.prefix.least == old.prefix.tokens:
            # Where its parting merges with an earlier one, it is only as sure as that.
            assert new.prefix.least == new.prefix.tokens or new.prefix.of != old.prefix.of
        else:
            assert new.prefix.least <= min(old.prefix.least, new.prefix.tokens)
        if old.prefix.greatest == old.prefix.tokens:
            assert new.prefix.greatest == new.prefix.tokens
        else:
            assert new.prefix.greatest >= min(old.prefix.greatest, new.prompt_tokens)


@settings(max_examples=30)
@given(bounded_traces(), STEPS)
def test_bounds_of_what_any_two_prompts_share_tighten_by_less_than_a_step(trace: Trace, step: int) -> None:
    before, after = PromptBounds(trace), PromptBounds(rounded(trace, step))

    for a, b in combinations([call.call for call in trace.calls()], 2):
        (low, high), (new_low, new_high) = before.common_prefix(a, b), after.common_prefix(a, b)
        assert new_low < low + step
        assert new_high > high - step


@settings(max_examples=30)
@given(st.lists(traces(timed=True), min_size=1, max_size=1), st.sampled_from([1, 10, 100]))
def test_what_came_first_still_does(drawn: list[Trace], step_ms: int) -> None:
    before = drawn[0]
    after = rebased(before, step_ms)

    def instants(trace: Trace) -> list[float]:
        return [
            time
            for call in trace.calls()
            for time in (call.at_ms or 0.0, (call.at_ms or 0.0) + (call.duration_ms or 0.0))
        ]

    order = sorted(zip(instants(before), instants(after), strict=True))
    assert all(earlier[1] <= later[1] for earlier, later in pairwise(order))
    assert all(time % step_ms == 0 for time in instants(after))


@settings(max_examples=20)
@given(corpora(), st.none() | STEPS)
def test_every_publication_is_clean_and_holds_no_id_of_its_input(drawn: list[Trace], step: int | None) -> None:
    drawn = [replace(one, trace_id=f"deadbeef{number:08}") for number, one in enumerate(drawn)]
    labelled = [LabelledTrace("", Path(f"in-{n}"), Member(name="", trace=one)) for n, one in enumerate(drawn)]
    with TemporaryDirectory() as folder:
        publish(labelled, Path(folder, "out"), PublishOptions(round_tokens=step))
        written = b"".join(path.read_bytes() for path in Path(folder, "out").iterdir())

        assert audit([Path(folder, "out")]).is_clean
        assert len(open_traces([Path(folder, "out")])) == len(drawn)
    assert not any(id.encode() in written for one in drawn for id in (one.trace_id, one.campaign))


@settings(max_examples=30)
@given(corpora())
def test_two_publications_have_no_id_in_common_and_are_otherwise_equal(drawn: list[Trace]) -> None:
    first, second = (published_members(members_of(drawn), PublishOptions()) for _ in range(2))
    random_ids = re.compile(rb'"(trace_id|campaign)": "([0-9a-f]+)"')
    one, other = (b"".join(dumps(member.trace) for member in members) for members in (first, second))

    assert not {id for _, id in random_ids.findall(one)} & {id for _, id in random_ids.findall(other)}
    assert random_ids.sub(b"", one) == random_ids.sub(b"", other)


@settings(max_examples=30)
@given(corpora(), st.integers(0, 9), STEPS)
def test_a_seed_gives_the_same_bytes(drawn: list[Trace], seed: int, step: int) -> None:
    options = PublishOptions(seed=seed, round_tokens=step)
    one, other = (published_members(members_of(drawn), options) for _ in range(2))

    assert [dumps(member.trace) for member in one] == [dumps(member.trace) for member in other]
    assert all(loads(dumps(member.trace)) == member.trace for member in one)


@st.composite
def volatile_traces(draw: st.DrawFn) -> Trace:
    """Draw traces some of whose prompts would share more with their stream if lines were left out."""
    trace = draw(sized_traces())
    streams: dict[Node, int] = {one.id: one.tokens for one in trace.shared_prefixes}
    streams |= {call.call: call.stream_tokens for call in trace.calls()}

    def volatile(call: Call) -> Call:
        prefix = call.prefix
        if prefix.of is None or draw(st.booleans()):
            return call
        most = min(call.prompt_tokens, streams[prefix.of])
        return replace(call, masked=replace(prefix, tokens=draw(st.integers(prefix.tokens, most))))

    events = tuple(volatile(one) if isinstance(one, Call) else one for one in trace.events)
    return replace(trace, events=events)


@settings(max_examples=30)
@given(volatile_traces(), STEPS)
def test_what_prompts_would_share_without_their_dates_is_rounded_too(trace: Trace, step: int) -> None:
    after = rounded(trace, step)

    validate(after)
    for old, new in zip(trace.calls(), after.calls(), strict=True):
        assert (old.masked is None) == (new.masked is None)
        if old.masked is not None and new.masked is not None:
            assert abs(new.masked.tokens - old.masked.tokens) < step
            assert new.masked.tokens >= new.prefix.tokens
    published = published_members(members_of([trace]), PublishOptions(round_tokens=step))[0].trace
    assert loads(dumps(published)) == published


@settings(max_examples=30)
@given(traces(), st.sampled_from([16, 64, 512]), STEPS)
def test_prefixes_that_are_known_by_blocks_stay_valid(trace: Trace, granularity: int, step: int) -> None:
    coarse = replace(uneven(trace, granularity), prefix_granularity=granularity)
    validate(coarse)

    after = rounded(coarse, step)

    validate(after)
    assert granularity % after.prefix_granularity == 0
