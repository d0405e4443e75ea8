"""Calls without content: what is assumed of their prompts by conversation, counts and what was cached."""

from __future__ import annotations

from typing import Any

import pytest
from otlp_spans import Span, agent, calls_of, chat, span, tool, trace_of

from rotoscope.sdk.otlp import aspects
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.model import Call, Prefix, ToolCall


def cached(tokens: int) -> dict[str, int]:
    return {"gen_ai.usage.cache_read.input_tokens": tokens}


def conversation(*calls: tuple[int, int, dict[str, Any]]) -> list[Call]:
    """Return the calls of one agent, each with the lengths of its prompt and answer, and what else its span tells."""
    top = agent(at=(0, 100))
    return calls_of(
        top,
        *(
            chat(prompt, completion, told, at=(n, n + 0.5), parent=top)
            for n, (prompt, completion, told) in enumerate(calls)
        ),
    )


def referents(calls: list[Call]) -> list[tuple[Any, int]]:
    return [(call.prefix.of, call.prefix.tokens) for call in calls]


def test_each_prompt_goes_on_behind_the_whole_stream_before_it() -> None:
    assert referents(conversation((100, 10, {}), (150, 20, {}), (200, 5, {}))) == [(None, 0), (0, 110), (1, 170)]


@pytest.mark.parametrize(
    ("told", "length", "tokens"),
    [
        ({}, 200, 100),
        ({"openai.api.type": "responses"}, 200, 150),
        ({"gen_ai.provider.name": "anthropic"}, 200, 150),
        ({"openai.api.type": "responses"}, 120, 100),
    ],
    ids=["chats drop it", "responses keep it", "messages keep it", "what does not fit was dropped"],
)
def test_reasoning_is_kept_where_clients_send_it_back(told: dict[str, Any], length: int, tokens: int) -> None:
    thought = {"gen_ai.usage.reasoning.output_tokens": 40, **told}

    first, second = conversation((100, 50, thought), (length, 5, told))

    assert (second.prefix.of, second.prefix.tokens) == (0, tokens)
    assert first.reasoning_tokens == 40


def test_a_side_call_does_not_stand_in_the_way() -> None:
    calls = conversation((1000, 50, {}), (30, 10, {}), (1100, 50, {}), (1200, 50, {}))

    assert referents(calls) == [(None, 0), (None, 0), (0, 1050), (2, 1150)]
    assert calls[1].prefix == Prefix(None, 0, "opaque", high=30)


def test_what_the_server_found_tells_which_prompt_goes_on() -> None:
    """Both fit: the short one began anew, and the long prompt goes on from the long one."""
    calls = conversation((1000, 50, {}), (200, 10, {}), (1100, 50, cached(1040)), (300, 5, cached(208)))

    assert referents(calls)[2:] == [(0, 1050), (1, 210)]


def test_a_prompt_of_which_the_server_found_more_shares_that_with_the_first_that_is_as_long() -> None:
    calls = conversation((1000, 50, {}), (30, 10, {}), (900, 50, cached(640)))

    assert referents(calls) == [(None, 0), (None, 0), (0, 640)]
    assert calls[2].prefix == Prefix(0, 640, "assumed", low=0, high=900)


def test_it_is_told_how_many_prefixes_the_cache_bears_out() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    told = [{}, cached(96), cached(0), cached(200)]

    calls = [chat(100 + 60 * n, 10, one, at=(n, n + 0.5), parent=top) for n, one in enumerate(told)]
    trace_of(top, *calls, fidelity=fidelity)

    assert fidelity.counts[aspects.ASSUMED] == 4
    assert fidelity.counts[aspects.BORNE_OUT] == 2


def test_calls_at_the_same_time_do_not_go_on_from_each_other() -> None:
    top = agent(at=(0, 9))

    calls = calls_of(top, *(chat(100 * n, 10, at=(n / 10, 2), parent=top) for n in (1, 2)))

    assert [call.prefix.of for call in calls] == [None, None]


def test_two_models_are_two_conversations() -> None:
    calls = conversation((100, 10, {}), (150, 10, {"gen_ai.request.model": "another"}), (160, 10, {}))

    assert referents(calls) == [(None, 0), (None, 0), (0, 110)]
    assert [call.domain for call in calls] == [0, 1, 0]
    assert calls[1].prefix == Prefix(None, 0, "assumed")


def test_two_conversations_of_one_agent_are_two() -> None:
    one, other = ({"gen_ai.conversation.id": name} for name in ("one", "other"))

    calls = conversation((100, 10, one), (150, 10, other), (200, 10, one), (210, 10, other))

    assert referents(calls) == [(None, 0), (None, 0), (0, 110), (1, 160)]


def test_a_conversation_goes_on_in_another_agent_and_trace() -> None:
    told = {"gen_ai.conversation.id": "one"}
    tops = [agent(at=(n, n + 1), trace=f"{n + 1:032x}") for n in (0, 2)]

    calls = calls_of(*tops, *(chat(100 + 50 * n, 10, told, at=(2 * n, 2 * n + 1), parent=tops[n]) for n in (0, 1)))

    assert referents(calls) == [(None, 0), (0, 110)]


def test_agents_of_one_session_of_claude_code_are_conversations_of_their_own() -> None:
    told = {"session.id": "one", "span.type": "llm_request", "output_tokens": 10}
    spans = [
        span({**told, "input_tokens": length, **agent_id}, at=(at, at + 1), name="claude_code.llm_request")
        for at, (length, agent_id) in enumerate(
            [(100, {}), (150, {"agent_id": "a"}), (200, {}), (250, {"agent_id": "a"})]
        )
    ]

    assert [call.prefix.of for call in calls_of(*spans)] == [None, None, 0, 1]


def test_agents_are_conversations_of_their_own() -> None:
    tops = [agent(at=(n, n + 1)) for n in (0, 2)]

    calls = calls_of(*tops, *(chat(100 + 50 * n, 10, at=(2 * n, 2 * n + 1), parent=tops[n]) for n in (0, 1)))

    assert referents(calls) == [(None, 0), (None, 0)]


def test_a_call_that_failed_is_an_attempt_at_the_next_one() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    failed = [chat(None, None, {"error.type": "429"}, at=(n, n + 0.5), parent=top, status={"code": 2}) for n in (2, 3)]
    spans = [chat(100, 10, at=(0, 1), parent=top), *failed, chat(150, 10, at=(4, 5), parent=top)]

    first, second = trace_of(top, *spans, fidelity=fidelity).calls()

    assert (first.attempts, second.attempts) == (None, 3)
    assert second.prefix == Prefix(0, 110, "assumed", low=0)
    assert aspects.REFUSED not in fidelity.counts


def test_a_call_that_failed_for_good_is_told_of() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    failed = chat(None, None, at=(2, 3), parent=top, status={"code": "STATUS_CODE_ERROR"})

    calls = list(trace_of(top, chat(100, 10, at=(0, 1), parent=top), failed, fidelity=fidelity).calls())

    assert len(calls) == 1
    assert fidelity.counts[aspects.REFUSED] == 1


def test_a_call_of_which_nothing_tells_how_long_it_is_is_told_of() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    spans: list[Span] = [chat(100, 10, at=(0, 1), parent=top), chat(None, None, at=(2, 3), parent=top)]

    assert len(list(trace_of(top, *spans, fidelity=fidelity).calls())) == 1
    assert fidelity.counts[aspects.UNSIZED] == 1


def test_tools_behind_a_call_are_those_that_it_asked_for() -> None:
    top = agent(at=(0, 9))
    trace = trace_of(
        top,
        chat(100, 10, at=(0, 1), parent=top),
        tool("a", at=(1.5, 2), parent=top),
        tool("b", at=(1.5, 2.5), parent=top),
        chat(200, 10, at=(3, 4), parent=top),
    )

    ran = [event for event in trace.events if isinstance(event, ToolCall)]
    assert next(trace.calls()).tool_calls == tuple(event.tool_name for event in ran)
    assert {event.time_source for event in ran} == {"sdk"}


def test_a_tool_that_ran_before_the_answer_had_ended_is_of_that_answer() -> None:
    top, asks = agent(at=(0, 9)), {"gen_ai.response.finish_reasons": ["tool_calls"]}
    calls = [chat(100, 10, asks, at=(0, 1), parent=top), chat(150, 10, asks, at=(2, 4), parent=top)]
    calls.append(chat(200, 5, at=(5, 6), parent=top))
    tools = [tool("one", at=(1, 2), parent=top), tool("two", at=(3.5, 4.5), parent=top)]

    trace = trace_of(top, *calls, *tools)

    found = [event for event in trace.events if isinstance(event, ToolCall)]
    assert [(event.call, event.at_ms, event.time_source) for event in found] == [(0, 1000.0, "sdk"), (1, 3500.0, "sdk")]
    assert [call.tool_calls for call in trace.calls()] == [("tool0",), ("tool1",), ()]


def test_tools_that_no_span_tells_of_have_the_time_of_the_gap() -> None:
    asked = {"gen_ai.response.finish_reasons": ["tool_calls"]}
    top = agent(at=(0, 9))
    trace = trace_of(top, *(chat(100 * n, 10, asked, at=(2 * n, 2 * n + 1), parent=top) for n in (1, 2)))

    (ran,) = [event for event in trace.events if isinstance(event, ToolCall)]
    assert (ran.time_source, ran.duration_ms) == ("gap", 1000.0)


def test_a_call_that_has_not_ended_and_was_not_counted_is_told_of() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, None))
    spans = [chat(100, None, at=(0, None), parent=top), chat(200, 10, at=(3, 4), parent=top)]

    (call,) = trace_of(top, *spans, fidelity=fidelity).calls()

    assert call.prompt_tokens == 200
    assert fidelity.counts[aspects.UNSIZED] == 1
