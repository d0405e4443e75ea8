from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from token_worlds import World, common, trace_of, worlds

from rotoscope import testing
from rotoscope.testing import make_call
from rotoscope.traces import Call, Forest, Prefix, SharedPrefix, SharedPrefixLink, normalise


@given(worlds(domains=1))
def test_common_prefixes_of_all_streams_equal_those_of_the_tokens(world: World) -> None:
    forest = Forest.of_trace(trace_of(world))

    streams: dict[int | str, tuple[int, ...]] = {f"s{i}": s for i, s in enumerate(world.shared)}
    streams |= {i: call.stream for i, call in enumerate(world.calls)}
    names = list(streams)
    for i, a in enumerate(names):
        for b in names[i:]:
            expected = common(streams[a], streams[b])
            if isinstance(a, int) or isinstance(b, str):
                # An output that begins by chance like a later stream is not recorded (R4).
                assert forest.common_prefix(a, b) <= expected
            if isinstance(b, int):
                prompt = world.calls[b].prompt
                assert min(forest.common_prefix(a, b), len(prompt)) == common(streams[a], prompt)


@given(worlds())
def test_normal_form_of_any_reference_is_its_owner(world: World) -> None:
    trace = trace_of(world)
    events = []
    for event in trace.events:
        assert isinstance(event, Call)
        options = [
            other
            for other in trace.calls()
            if other.call < event.call
            and other.domain == event.domain
            and common(world.calls[other.call].stream, world.calls[event.call].prompt) == event.prefix.tokens > 0
        ]
        of = options[-1].call if options else event.prefix.of
        events.append(replace(event, prefix=Prefix(of, event.prefix.tokens, "ids")))

    assert normalise(replace(trace, events=tuple(events))) == trace


@given(worlds())
def test_calls_of_different_domains_share_at_most_a_shared_prefix(world: World) -> None:
    forest = Forest.of_trace(trace_of(World((), world.calls)))

    for a, one in enumerate(world.calls):
        for b, other in enumerate(world.calls):
            if one.domain != other.domain:
                assert forest.common_prefix(a, b) == 0


def test_a_prefix_that_is_named_after_an_earlier_stream_is_as_unsure_as_those_on_the_way() -> None:
    calls = (
        make_call(0, 5),
        make_call(1, 4, osl=0, prefix=Prefix(0, 4, "messages", low=2)),
        make_call(2, 4, osl=0, prefix=Prefix(1, 4, "messages", low=3)),
        make_call(3, 4, prefix=Prefix(2, 3, "messages")),
        make_call(4, 9, prefix=Prefix(2, 4, "messages", low=1, high=7)),
    )

    trace = normalise(testing.trace_of(*calls))

    assert [call.prefix for call in trace.calls()][3:] == [
        Prefix(0, 3, "messages", low=2),
        Prefix(0, 4, "messages", low=1, high=7),
    ]


def test_a_prefix_that_is_named_after_the_shared_prefix_before_its_own_is_as_unsure_as_that() -> None:
    shared = (SharedPrefix("s0", "system", 8), SharedPrefix("s1", "system", 9, SharedPrefixLink("s0", 6, low=4)))

    trace = normalise(testing.trace_of(make_call(0, 9, prefix=Prefix("s1", 5, "text")), shared_prefixes=shared))

    assert next(trace.calls()).prefix == Prefix("s0", 5, "text", low=4)
