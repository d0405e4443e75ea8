from __future__ import annotations

from typing import Any

import orjson
import pytest

from rotoscope.replayer.backends.apis import APIS, api_named
from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.exchange import Exchange
from rotoscope.traces import UnusableInput

STREAMED = {"model": "m", "stream": True}
WITH_USAGE = STREAMED | {"stream_options": {"include_usage": True}}
EXACTLY = {"min_tokens": 7, "ignore_eos": True}


def body(api: str, engine: str = "any", *, model: str = "m", prompt: bytes = b"[]") -> dict[str, Any]:
    make = APIS[api].body(model, ENGINES[engine])
    parsed: dict[str, Any] = orjson.loads(make(Exchange(prompt=prompt, output_tokens=7)))
    return parsed


@pytest.mark.parametrize(
    ("api", "engine", "expected"),
    [
        ("completions", "vllm", WITH_USAGE | EXACTLY | {"temperature": 0, "max_tokens": 7, "return_token_ids": True}),
        ("completions", "trtllm", WITH_USAGE | EXACTLY | {"temperature": 0, "max_tokens": 7, "detokenize": False}),
        ("completions", "llama.cpp", WITH_USAGE | EXACTLY | {"temperature": 0, "max_tokens": 7, "n_probs": 1}),
        (
            "completions",
            "dynamo",
            WITH_USAGE
            | EXACTLY
            | {"temperature": 0, "max_tokens": 7, "nvext": {"extra_fields": ["completion_token_ids"]}},
        ),
        ("completions", "openai", WITH_USAGE | {"max_tokens": 7}),
        ("chat", "vllm", WITH_USAGE | EXACTLY | {"temperature": 0, "max_tokens": 7}),
        ("chat", "any", WITH_USAGE | {"temperature": 0, "max_tokens": 7}),
        ("chat", "openai", WITH_USAGE | {"max_completion_tokens": 7}),
        ("responses", "llama.cpp", STREAMED | EXACTLY | {"temperature": 0, "max_output_tokens": 7, "store": False}),
        ("responses", "any", STREAMED | {"temperature": 0, "max_output_tokens": 7, "store": False}),
        ("responses", "openai", STREAMED | {"max_output_tokens": 16, "store": False}),
        ("messages", "any", STREAMED | {"temperature": 0, "max_tokens": 7}),
        ("messages", "simulator", STREAMED | EXACTLY | {"temperature": 0, "max_tokens": 7}),
        ("messages", "anthropic", STREAMED | {"max_tokens": 7}),
        (
            "generate",
            "sglang",
            {
                "stream": True,
                "sampling_params": {"temperature": 0, "max_new_tokens": 7, "min_new_tokens": 7, "ignore_eos": True},
            },
        ),
    ],
)
def test_a_request_says_what_its_server_is_known_to_take(api: str, engine: str, expected: dict[str, Any]) -> None:
    sent = body(api, engine)

    assert sent.pop(APIS[api].prompt_field) == []
    assert sent == expected


@pytest.mark.parametrize(("api", "asked"), [("chat", {"vllm", "sglang"}), ("completions", set()), ("messages", set())])
def test_only_a_chat_that_others_wait_for_asks_how_far_it_is(api: str, asked: set[str]) -> None:
    def asks(engine: str, **fields: Any) -> bool:
        exchange = Exchange(prompt=b"[]", output_tokens=7, **fields)
        sent = orjson.loads(APIS[api].body("m", ENGINES[engine])(exchange))
        return "continuous_usage_stats" in sent.get("stream_options", {})

    assert {engine for engine in ENGINES if asks(engine, on_delivery=lambda tokens: None)} == asked
    assert not any(map(asks, ENGINES))


@pytest.mark.parametrize("model", ["100%d", "%(length)d", 'a"b', "the length"])
@pytest.mark.parametrize("api", ["completions", "chat", "responses", "messages"])
def test_a_models_name_is_sent_as_it_is(api: str, model: str) -> None:
    assert body(api, model=model)["model"] == model


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnusableInput, match="choose one of auto, completions, generate, chat, responses, messages"):
        api_named("embeddings")
