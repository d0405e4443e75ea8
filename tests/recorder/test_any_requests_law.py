"""Whatever a client sends to a path of calls, it is forwarded as it came, and the recording goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from chat_wire import Wire
from hypothesis import given, settings
from hypothesis import strategies as st

from rotoscope.recorder import Exchange
from rotoscope.traces import dumps, loads

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/m:generateContent",
    "/v1beta/models/m:streamGenerateContent",
    "/v1/embeddings",
)
FIELDS = [
    "model",
    "prompt",
    "suffix",
    "echo",
    "n",
    "stream",
    "stream_options",
    "include_usage",
    "messages",
    "role",
    "content",
    "text",
    "type",
    "tools",
    "tool_calls",
    "id",
    "function",
    "name",
    "arguments",
    "tool_call_id",
    "reasoning_content",
    "system",
    "thinking",
    "tool_use_id",
    "input",
    "tool_use",
    "tool_result",
    "previous_response_id",
    "conversation",
    "instructions",
    "call_id",
    "output",
    "contents",
    "parts",
    "functionCall",
    "functionResponse",
    "systemInstruction",
    "metadata",
    "user_id",
    "prompt_cache_key",
    "cache_salt",
    "response_format",
]
WORDS = (
    *FIELDS,
    "user",
    "assistant",
    "tool",
    "function_call",
    "function_call_output",
    "message",
    "2026-01-02",
    "é",
    "",
)
SCALARS = st.one_of(
    st.sampled_from((None, True, False, 0, 1, -1, 2, 129, 10**6, 2**63, 2**64 + 1, 10**30, 0.5)),
    st.sampled_from(WORDS),
    st.text('ab \u00e9\U0001f600{}:,"\\\n\x00\ufeff\u2028', max_size=40),
)
NO_JSON = st.sampled_from(("\ud800", float("nan"), float("inf")))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(WORDS)}, optional={"content": VALUES, "tool_calls": VALUES, "tool_call_id": VALUES}
)
REQUESTS = st.fixed_dictionaries(
    {
        "messages": st.lists(MESSAGES | VALUES, min_size=1, max_size=4) | VALUES,
        "prompt": st.text("ab ", min_size=1) | st.lists(st.integers(0, 2**32 - 1) | st.just("a"), min_size=1) | VALUES,
        "input": st.text("ab ", min_size=1) | st.lists(MESSAGES | VALUES, min_size=1, max_size=4),
        "contents": st.lists(st.fixed_dictionaries({"parts": st.lists(VALUES)}) | VALUES, min_size=1, max_size=4),
        "stream": st.just(True) | VALUES,
    },
    optional={"stream_options": VALUES, "n": VALUES, "tools": VALUES, "system": VALUES, "echo": VALUES, "id": NO_JSON},
)
WRITERS: tuple[Callable[[Any], bytes], ...] = (
    lambda value: json.dumps(value).encode(),
    lambda value: json.dumps(value, ensure_ascii=False, indent=1).encode(errors="surrogatepass"),
    lambda value: json.dumps(value, separators=(",", ":")).encode() + b" \r\n\t",
    lambda value: b"\xef\xbb\xbf" + json.dumps(value).encode(),
    lambda value: json.dumps(value).encode("utf-16"),
    lambda value: json.dumps(value).encode()[:-1],
    lambda value: b'{"stream":true,"stream":false,' + json.dumps(value).encode()[1:],
    lambda value: b'{"a":{"stream_options":{"include_usage":true}},' + json.dumps(value).encode()[1:],
)
BODIES = st.one_of(
    REQUESTS.map(WRITERS[0]),
    st.builds(lambda write, value: write(value), st.sampled_from(WRITERS), REQUESTS),
    st.builds(lambda write, value: write({"messages": value}), st.sampled_from(WRITERS), VALUES),
    st.binary(max_size=60),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(PATHS), BODIES), min_size=1, max_size=4))
def test_any_request_is_forwarded_as_it_came(requests: Sequence[tuple[str, bytes]]) -> None:
    wire = Wire()
    exchanges = [wire.recorder.request(path, body, at_s=wire.now_s) for path, body in requests]
    for exchange, (_, body) in zip(exchanges, requests, strict=True):
        check_forwarded(body, exchange)
        wire.answer(exchange, {"role": "assistant", "content": "x"})

    check_trace(wire, exchanges)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("depth", [200, 300, 700, 100_000])
def test_requests_that_go_deep_are_forwarded_as_they_came(path: str, depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    fields = b'"contents":[{"parts":[{"text":"x"}]}],"input":"x","max_tokens":1,"prompt":"x","stream":true'
    wire = Wire()
    bodies = [
        b'{"messages":[{"role":"user","content":"x"}],%b,"tools":[%b]}' % (fields, deep),
        b'{"messages":[{"role":"user","content":[%b]}],%b}' % (deep, fields),
        b'{"messages":[{"role":"user","content":"x"}],%b,"stream_options":%b}' % (fields, deep),
        b'{"messages":[{"role":"user","content":"x"}],%b,"model":%b,"metadata":%b}' % (fields, deep, deep),
    ]
    exchanges = [wire.recorder.request(path, body, at_s=wire.now_s) for body in bodies]

    for exchange, body in zip(exchanges, bodies, strict=True):
        check_forwarded(body, exchange)
        exchange.cancelled(at_s=wire.now_s)
    check_trace(wire, exchanges)


def check_forwarded(body: bytes, exchange: Exchange) -> None:
    """Check that what is sent upstream is the body itself, or the same request that asks for usage."""
    if exchange.upstream_body == body:
        return
    asked, sent = json.loads(body), json.loads(exchange.upstream_body)
    assert sent.pop("stream_options")["include_usage"] is True
    options = orjson.loads(body).get("stream_options")
    expected = (options if isinstance(options, dict) else {}) | {"include_usage": True}
    assert orjson.loads(exchange.upstream_body)["stream_options"] == expected
    assert sent == {name: value for name, value in asked.items() if name != "stream_options"}


def check_trace(wire: Wire, exchanges: Sequence[Exchange]) -> None:
    """Check that what was recorded is a trace that can be read, and that what was not is told."""
    recorded = sum(exchange.listens for exchange in exchanges)
    trace, trouble = wire.recorder.close(), wire.recorder.trouble

    assert len(wire.written().records) >= 2 * sum(exchange.recorded for exchange in exchanges)
    assert recorded == len(exchanges) or trouble or wire.recorder.passed
    assert not any("could not be built" in line for line in trouble)
    assert trace is None or loads(dumps(trace)) == trace
    assert trace is not None or not any(exchange.recorded for exchange in exchanges)
