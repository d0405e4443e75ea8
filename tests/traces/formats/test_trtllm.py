from __future__ import annotations

import json
import logging
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from foreign_traces import Json, call, drop, fork, join, message, tool, trtllm
from hypothesis import given
from message_worlds import Run, common, runs

from rotoscope.traces import (
    Call,
    DropKvCache,
    Forest,
    Message,
    ParallelEnd,
    ParallelStart,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceError,
    dumps,
    loads,
)
from rotoscope.traces.analysis.optimum import Assumptions, planned_hits
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.formats.trtllm import read_trtllm

SYSTEM = message("system", 0, 100, system_prompt_id="a template")
USER = message("user", 1, 50)


def prefixes(trace: Trace) -> list[tuple[int | str | None, int]]:
    return [(call.prefix.of, call.prefix.tokens) for call in trace.calls()]


def read(*events: dict[str, object]) -> Trace:
    trace = read_trtllm(trtllm(*events), "x.trace.json")
    assert loads(dumps(trace)) == trace
    return trace


@given(runs())
def test_common_prefixes_are_those_of_the_real_streams(run: Run) -> None:
    forest = Forest.of_trace(read_trtllm(run.data))

    for a, real in enumerate(run.calls):
        for b, other in enumerate(run.calls[:a]):
            assert forest.common_prefix(a, b) == common(real.stream, other.stream)


@given(runs(overhead=True))
def test_bounds_hold_what_any_two_prompts_share_where_sizes_do_not_add_up(run: Run) -> None:
    bounds = PromptBounds(read_trtllm(run.data))

    for a, b in combinations(range(len(run.calls)), 2):
        low, high = bounds.common_prefix(a, b)
        assert low <= common(run.calls[a].prompt, run.calls[b].prompt) <= high


@given(runs(overhead=True))
def test_bounds_hold_the_true_prefix_where_sizes_do_not_add_up(run: Run) -> None:
    trace = read_trtllm(run.data)

    assert loads(dumps(trace)) == trace
    for call_ in trace.calls():
        if isinstance(call_.prefix.of, int):
            true = common(run.calls[call_.call].prompt, run.calls[call_.prefix.of].stream)
            assert call_.prefix.least <= true <= call_.prefix.greatest


def test_a_conversation_that_grows_shares_the_whole_previous_stream() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), message("user", 3, 30), call(4, 200))

    assert prefixes(trace) == [("s0", 100), (0, 170)]


def test_an_answer_enters_the_next_prompt_without_its_reasoning() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20, 5), message("user", 3, 30), call(4, 195))

    assert prefixes(trace)[1] == (0, 150)


def test_an_answer_may_come_back_in_other_tokens_so_the_prompt_before_it_is_the_least_value() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), message("user", 3, 30), call(4, 200))

    assert [list(trace.calls())[1].prefix.least, list(trace.calls())[1].prefix.greatest] == [150, 170]


def test_a_message_at_an_old_index_cuts_its_conversation() -> None:
    events = [SYSTEM, USER, call(2, 150, 20), message("tool", 3, 30), call(4, 200, 10)]

    trace = read(*events, message("user", 3, 7), call(4, 177))

    assert prefixes(trace)[2] == (0, 170)


def test_a_retry_is_the_same_prompt_again_and_replaces_the_answer() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), call(2, 150, 30), message("user", 3, 5), call(4, 185))

    assert prefixes(trace) == [("s0", 100), (0, 150), (1, 180)]


def test_a_child_branch_has_its_parents_list_as_it_was_at_the_fork() -> None:
    events = [SYSTEM, USER, call(2, 150, 20), fork(1), message("user", 3, 9), call(4, 179, 10)]

    trace = read(*events, message("user", 3, 30, path=[0]), call(4, 200, path=[0]))

    assert prefixes(trace)[2] == (0, 170)


def test_a_grandchild_has_the_list_of_the_nearest_branch_that_has_one() -> None:
    start = [SYSTEM, USER, call(2, 150, 20), fork(2), message("user", 3, 9), call(4, 179, 10)]
    own = [message("user", 3, 30, path=[0]), call(4, 200, 10, path=[0]), fork(1, 0)]

    trace = read(*start, *own, fork(1, 1), call(5, 210, path=[0, 0]), call(3, 170, path=[1, 0]))

    assert prefixes(trace)[2:] == [(0, 170), (2, 210), (0, 170)]


def test_a_grandchild_has_the_list_of_the_fork_even_if_its_parent_changed_it_since() -> None:
    start = [SYSTEM, USER, call(2, 150, 20), fork(1), fork(1, 0)]

    trace = read(*start, message("user", 1, 9, path=[0]), call(2, 109, 10, path=[0]), call(3, 170, path=[0, 0]))

    assert prefixes(trace) == [("s0", 100), ("s0", 100), (0, 170)]


def test_a_conversation_born_after_the_fork_on_the_parents_branch_reaches_the_child() -> None:
    trace = read(fork(1), SYSTEM, USER, call(2, 150, 20, path=[0]))

    assert prefixes(trace) == [("s0", 100)]


def test_the_recorded_length_of_a_prompt_decides_over_the_sizes_of_its_messages() -> None:
    trace = read(SYSTEM, USER, call(2, 158, 20), message("user", 3, 30), call(4, 190), call(4, 190))

    assert [c.prompt_tokens for c in trace.calls()] == [158, 190, 190]
    assert prefixes(trace) == [("s0", 100), (0, 178), (1, 190)]


def test_a_prompt_that_was_recorded_too_short_for_its_past_shares_all_of_itself() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), message("user", 3, 3), call(4, 160))

    assert prefixes(trace)[1] == (0, 160)


def test_a_prompt_that_is_shorter_than_the_one_before_has_no_least_value_beyond_itself() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), message("user", 3, 3), call(4, 140))

    prefix = list(trace.calls())[1].prefix
    assert (prefix.of, prefix.tokens, prefix.least, prefix.greatest) == (0, 140, 140, 140)


def test_a_prefix_names_the_stream_that_has_its_last_token_first() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), message("user", 3, 3), call(4, 160), call(4, 160))

    assert prefixes(trace)[2] == (0, 160)


def test_a_place_where_no_prompt_ends_is_shared_out_by_size_and_bounded_by_those_around_it() -> None:
    events = [message("user", 0, 10), message("user", 1, 30), call(2, 80)]

    trace = read(*events, message("user", 1, 5), call(2, 30))

    prefix = list(trace.calls())[1].prefix
    assert (prefix.of, prefix.least, prefix.tokens, prefix.greatest) == (0, 0, 20, 30)


def test_a_place_where_a_later_prompt_ends_is_measured_by_that() -> None:
    events = [message("user", 0, 10), message("user", 1, 30), call(2, 80)]

    trace = read(*events, call(1, 14))

    assert prefixes(trace)[1] == (0, 14)
    assert list(trace.calls())[1].prefix.low is None


def test_one_system_prompt_with_two_lengths_is_one_shared_prefix_of_the_longest() -> None:
    other: Json = {"conversation_id": 7}
    events = [SYSTEM, USER, call(2, 150), message("system", 0, 120, system_prompt_id="a template", **other)]

    trace = read(*events, message("user", 1, 5, **other), call(2, 125, **other))

    assert trace.shared_prefixes == (SharedPrefix("s0", "system", 120),)
    assert prefixes(trace) == [("s0", 100), ("s0", 120)]
    assert Forest.of_trace(trace).common_prefix(0, 1) == 100


def test_a_second_system_prompt_is_a_shared_prefix_that_goes_on_from_the_first() -> None:
    tools = message("system", 1, 40, system_prompt_id="tools")

    trace = read(SYSTEM, tools, message("user", 2, 5), call(3, 145))

    assert trace.shared_prefixes[1] == SharedPrefix("s1", "system", 140, SharedPrefixLink("s0", 100))
    assert prefixes(trace) == [("s1", 140)]


def test_a_system_prompt_after_another_message_is_not_shared() -> None:
    late = message("system", 2, 40, system_prompt_id="late")

    trace = read(SYSTEM, USER, late, call(3, 190))

    assert [prefix.id for prefix in trace.shared_prefixes] == ["s0"]
    assert [e.system_prompt_id for e in trace.events if isinstance(e, Message)] == ["s0", None, None]


def test_a_system_prompt_without_an_id_is_read_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    trace = read(message("system", 0, 100), USER, call(2, 150))

    assert prefixes(trace) == [(None, 0)]
    assert "1 x system message without system_prompt_id" in caplog.text


def test_traces_of_the_same_templates_share_them_and_others_do_not() -> None:
    other = message("system", 0, 100, system_prompt_id="another template")

    campaigns = [read(*first, USER, call(2, 150)).campaign for first in ([SYSTEM], [SYSTEM], [other], [])]

    assert campaigns[0] == campaigns[1]
    assert len({campaigns[0], campaigns[2], campaigns[3]}) == 3


def test_templates_in_another_order_or_nesting_are_not_the_same_campaign() -> None:
    tools = message("system", 1, 40, system_prompt_id="b")
    elsewhere: Json = {"conversation_id": 1}
    nested = read(message("system", 0, 9, system_prompt_id="a"), tools, call(2, 49))
    apart = read(
        message("system", 0, 9, system_prompt_id="a"),
        call(1, 9),
        message("system", 0, 40, system_prompt_id="b", **elsewhere),
        call(1, 40, **elsewhere),
    )

    assert nested.campaign != apart.campaign


def test_seeded_history_gets_the_tokens_that_no_other_message_accounts_for(caplog: pytest.LogCaptureFixture) -> None:
    shots = [message("user", 1, 10), message("assistant", 2, None), message("user", 3, 10)]

    trace = read(SYSTEM, *shots, message("assistant", 4, None), USER | {"message_index": 5}, call(6, 231))

    seeded = [e for e in trace.events if isinstance(e, Message) and e.role == "assistant"]
    assert [(e.tokens, e.tokens_source) for e in seeded] == [(30, "estimate"), (31, "estimate")]
    assert "2 x assistant message without counts" in caplog.text


def test_seeded_history_that_no_prompt_has_is_empty() -> None:
    trace = read(SYSTEM, USER, call(2, 150), message("assistant", 3, None))

    assert [e.tokens for e in trace.events if isinstance(e, Message)][-1] == 0


def test_messages_that_were_never_recorded_make_the_prefix_opaque(caplog: pytest.LogCaptureFixture) -> None:
    trace = read(message("user", 4, 10), call(5, 300, 10), message("user", 6, 5), call(7, 320))

    first, second = (c.prefix for c in trace.calls())
    assert (first.of, first.source, first.least, first.greatest) == (None, "opaque", 0, 300)
    assert (second.of, second.tokens, second.source) == (0, 310, "messages")
    assert "1 x gap in the message indices" in caplog.text


def test_messages_that_are_missing_in_the_middle_leave_what_is_before_them_known() -> None:
    trace = read(SYSTEM, USER, call(2, 150, 20), message("user", 5, 10), call(6, 230))

    assert prefixes(trace)[1] == (0, 170)


def test_messages_that_were_never_recorded_are_the_same_ones_after_a_rewind() -> None:
    trace = read(message("user", 4, 10), call(5, 300, 10), message("user", 4, 20), call(5, 310))

    prefix = list(trace.calls())[1].prefix
    assert (prefix.of, prefix.tokens, prefix.least, prefix.greatest) == (0, 290, 0, 300)


def test_a_call_without_any_message_is_opaque_and_its_retry_is_not() -> None:
    trace = read(call(0, 40), call(0, 40))

    assert [c.prefix.source for c in trace.calls()] == ["opaque", "messages"]
    assert prefixes(trace)[1] == (0, 40)


def test_a_message_index_that_is_not_recorded_is_the_next_one() -> None:
    trace = read(message("user", None, 20), call(None, 20), message("user", None, 5), call(None, 35))

    assert [e.message_index for e in trace.events if isinstance(e, Message | Call)] == [0, 1, 2, 3]
    assert prefixes(trace)[1] == (0, 30)


def test_paths_become_branches_and_regions_pair_by_branch() -> None:
    events = [fork(2), fork(1, 0), fork(1, 1), message("user", 0, 5, path=[1, 0]), join(0), join(1), join()]

    trace = read(*events)

    assert [(e.region, e.branch) for e in trace.events if isinstance(e, ParallelStart)] == [
        (0, None),
        (1, (0, 0)),
        (2, (0, 1)),
    ]
    assert [e.branch for e in trace.events if isinstance(e, Message)] == [(2, 0)]
    assert [e.region for e in trace.events if isinstance(e, ParallelEnd)] == [1, 2, 0]


def test_a_path_that_no_fork_announced_becomes_a_further_branch() -> None:
    trace = read(fork(1), message("user", 0, 5, path=[4]), message("user", 0, 5, path=[2]), join())

    start = next(e for e in trace.events if isinstance(e, ParallelStart))
    assert start.num_branches == 2
    assert [(e.branch, e.branch_path) for e in trace.events if isinstance(e, Message)] == [
        ((0, 0), (4,)),
        ((0, 1), (2,)),
    ]


def test_a_path_without_any_fork_opens_a_region_that_is_never_joined(caplog: pytest.LogCaptureFixture) -> None:
    trace = read(SYSTEM, message("user", 1, 5, path=[0]), call(2, 105, path=[0]), message("user", 0, 5, path=[3, 1]))

    assert [type(e) for e in trace.events][1] is ParallelStart
    assert [e.branch for e in trace.events[2:]] == [(0, 0), (0, 0), (0, 1)]
    assert prefixes(trace) == [("s0", 100)]
    assert "1 x branch without a parallel_start" in caplog.text


def test_events_of_a_child_after_its_join_open_another_region() -> None:
    trace = read(fork(1), message("user", 0, 5, path=[0]), join(), message("user", 1, 5, path=[0]))

    assert [e.branch for e in trace.events if isinstance(e, Message)] == [(0, 0), (1, 0)]


def test_a_join_without_a_fork_is_an_error() -> None:
    with pytest.raises(TraceError, match=r"^x: event 0: branch_path: .*join without fork$"):
        read_trtllm(trtllm(join()), "x")


def test_tools_have_pseudonyms_and_the_call_that_asked_for_them() -> None:
    events = [SYSTEM, USER, call(2, 150, tool_calls=["grep", "ls"]), fork(2), tool("ls", 2.5, path=[0]), tool("grep")]

    trace = read(*events)

    assert next(trace.calls()).tool_calls == ("tool0", "tool1")
    tools = [e for e in trace.events if isinstance(e, ToolCall)]
    assert [(e.tool_name, e.tool_call_id, e.call, e.duration_ms) for e in tools] == [
        ("tool1", "t0", 0, 2.5),
        ("tool0", "t1", 0, 5.0),
    ]


def test_a_tool_on_a_branch_without_calls_was_asked_for_by_the_nearest_branch_that_has_one() -> None:
    start = [call(0, 5), fork(1), call(0, 5, path=[0]), call(0, 5), fork(1, 0)]

    trace = read(*start, tool(path=[0, 0]))

    assert [e.call for e in trace.events if isinstance(e, ToolCall)] == [1]


def test_a_tool_that_ran_before_any_call_has_none() -> None:
    trace = read(tool())

    assert [e.call for e in trace.events if isinstance(e, ToolCall)] == [None]


def test_the_wish_to_drop_the_cache_is_kept_where_it_was() -> None:
    trace = read(fork(1), drop(0), drop())

    assert [e.branch for e in trace.events if isinstance(e, DropKvCache)] == [(0, 0), None]


def test_finish_reasons_that_are_not_known_are_unknown() -> None:
    trace = read(*(call(0, 5, finish_reason=reason) for reason in ("tool_calls", "end_turn", "because i say so")))

    assert [c.finish_reason for c in trace.calls()] == ["tool_calls", "stop", "unknown"]


def test_a_uuid_is_kept_as_the_id_of_the_trace_and_any_other_id_is_not() -> None:
    uuid = "EE41C788-de9a-451c-8d9d-696cdb4b9c2b"

    assert read_trtllm(trtllm(trace_id=uuid)).trace_id == uuid.lower()
    named = read_trtllm(trtllm(trace_id="my secret project")).trace_id
    assert len(named) == 32
    assert named == read_trtllm(trtllm(trace_id="my secret project")).trace_id


def test_no_content_of_a_full_trace_survives(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = data_dir / "trtllm" / "synthetic"
    data = (folder / "canary_full_shape.full.trace.json").read_bytes()
    canaries = json.loads((folder / "canary_full_shape.canaries.json").read_bytes())["canaries"]
    caplog.set_level(logging.DEBUG)

    written = dumps(read_trtllm(data, "full.trace.json")).decode() + caplog.text

    assert all(canary in data.decode() for canary in canaries)
    assert [canary for canary in canaries if canary in written] == []
    assert [text for text in ("9f3ac1", "call_a1", "read_file", "c2a1f0d8", "full-shape") if text in written] == []
    assert "24 x field with content (dropped)" in caplog.text


def test_the_time_of_a_call_is_kept_from_a_full_trace(data_dir: Path) -> None:
    path = data_dir / "trtllm" / "synthetic" / "canary_full_shape.full.trace.json"

    assert [c.duration_ms for c in read_trtllm(path.read_bytes()).calls()] == [1520.25, 900.0]


def matplotlib(data_dir: Path) -> Trace:
    return read_trtllm((data_dir / "trtllm" / "matplotlib__matplotlib-23412.trace.json").read_bytes())


@pytest.mark.parametrize(
    ("assumptions", "rate"),
    [
        (Assumptions(), 0.96979),
        (Assumptions(decode_reuse=False), 0.95306),
        (Assumptions(preload=False), 0.95514),
    ],
)
def test_the_known_hit_rates_of_matplotlib(data_dir: Path, assumptions: Assumptions, rate: float) -> None:
    trace = matplotlib(data_dir)

    hits = planned_hits(trace, assumptions)

    assert len(hits) == 23
    assert round(sum(hits) / sum(c.prompt_tokens for c in trace.calls()), 5) == rate


def test_the_known_tool_time_of_matplotlib(data_dir: Path) -> None:
    tools = [e.duration_ms for e in matplotlib(data_dir).events if isinstance(e, ToolCall)]

    assert round(sum(tools) / 1000, 2) == 47.35
    assert len(tools) == 23


def test_matplotlib_is_one_conversation_that_only_grows(data_dir: Path) -> None:
    calls = list(matplotlib(data_dir).calls())

    assert calls[1].prefix.tokens == calls[0].prompt_tokens, "the first answer had reasoning"
    for previous, following in pairwise(calls[1:]):
        assert (following.prefix.of, following.prefix.tokens) == (previous.call, previous.stream_tokens)
