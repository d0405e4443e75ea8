from __future__ import annotations

from typing import Any

from rotoscope.recorder.summary import live_hit_rate, summary
from rotoscope.traces.model import NO_PREFIX, Call, Trace


def call(number: int, **fields: Any) -> Call:
    values: dict[str, Any] = {"prompt_tokens": 1000, "completion_tokens": 10, "finish_reason": "stop"} | fields
    return Call(call=number, conversation_id=0, message_index=number, prefix=NO_PREFIX, **values)


def trace(*calls: Call) -> Trace:
    return Trace(trace_id="0" * 16, campaign="0" * 16, token_source="usage", events=calls)


def test_sums_are_over_all_calls_and_odd_endings_are_counted() -> None:
    lines = summary(trace(call(0), call(1, finish_reason="cancelled"), call(2, finish_reason="error"), call(3)))

    assert lines == ["4 calls (1 cancelled, 1 failed), 4,000 prompt tokens, 40 completion tokens"]


def test_one_call_is_not_calls() -> None:
    assert summary(trace(call(0)))[0].startswith("1 call, ")


def test_estimated_tokens_are_told() -> None:
    lines = summary(trace(call(0), call(1, prompt_tokens_source="estimate")))

    assert lines[1] == "1 call came without usage from the server: tokens are estimates there"


def test_tokens_that_a_tokenizer_counted_are_told_with_its_name() -> None:
    sources = ("tokenizer:o200k_base", "tokenizer:server", "estimate", "tokenizer:o200k_base", "usage")
    lines = summary(trace(*(call(number, prompt_tokens_source=source) for number, source in enumerate(sources))))

    assert lines[1:] == [
        "1 call came without usage from the server: tokens are estimates there",
        "2 calls came without usage from the server: tokens are those of the tokenizer o200k_base there",
        "1 call came without usage from the server: tokens are those of the server itself there",
    ]


def test_live_hit_rate_is_pooled_over_the_calls_whose_cached_tokens_the_server_told() -> None:
    calls = [call(0, cached_tokens=0), call(1), call(2, prompt_tokens=3000, cached_tokens=3000)]

    assert live_hit_rate(calls) == (0.75, "2 calls")
    assert live_hit_rate([call(0)]) is None
