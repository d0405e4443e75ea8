from __future__ import annotations

from typing import Any

import pytest
from event_loops import in_event_loop
from simulated import simulated

from rotoscope.replayer.simulator.images import IMAGE_TOKENS, image_mark, with_images
from rotoscope.replayer.simulator.model import Answer, ModelRequest
from rotoscope.replayer.simulator.tokenizer import encode

CAT, DOG = "data:image/png;base64,Y2F0", "data:image/png;base64,ZG9n"
OF_ANTHROPIC = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "Y2F0"}}


def chat_body(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], "max_tokens": 1}


def responses_body(*parts: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": list(parts)}], "max_output_tokens": 1}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image_url(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def test_each_image_has_as_many_tokens_of_its_own_between_any_texts() -> None:
    cat, dog = encode(with_images(image_mark(b"cat"))), encode(with_images(image_mark(b"dog")))
    between = encode(with_images(f"look at a{image_mark(b'cat')}b c"))

    assert (len(cat), len(dog)) == (IMAGE_TOKENS, IMAGE_TOKENS)
    assert cat.tolist() != dog.tolist()
    assert between.tolist() == [*encode("look at a"), *cat, *encode("b c")]


@pytest.mark.parametrize(
    ("path", "without", "with_it"),
    [
        ("/v1/chat/completions", chat_body(text("Hi")), chat_body(text("Hi"), image_url(CAT))),
        (
            "/v1/responses",
            responses_body({"type": "input_text", "text": "Hi"}),
            responses_body({"type": "input_text", "text": "Hi"}, {"type": "input_image", "image_url": CAT}),
        ),
        ("/v1/messages", chat_body(text("Hi")), chat_body(text("Hi"), OF_ANTHROPIC)),
    ],
)
@in_event_loop
async def test_an_image_counts_as_so_many_tokens_in_every_dialect(
    path: str, without: dict[str, Any], with_it: dict[str, Any]
) -> None:
    async with simulated() as client:
        usages = [(await client.ask(path, body))["usage"] for body in (without, with_it)]

    one, other = (usage.get("prompt_tokens", usage.get("input_tokens")) for usage in usages)
    assert other - one == IMAGE_TOKENS


@in_event_loop
async def test_an_image_in_the_result_of_a_tool_is_read_and_one_without_anything_is_refused() -> None:
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Answer:
        seen.append(request)
        return Answer(text="A cat.")

    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("found"), OF_ANTHROPIC]}
    output = {"type": "function_call_output", "call_id": "t", "output": [{"type": "input_image", "image_url": CAT}]}
    async with simulated(answer) as client:
        await client.ask("/v1/messages", chat_body(result))
        await client.ask("/v1/responses", {"input": [output]})
        error = (await client.ask("/v1/chat/completions", chat_body({"type": "image_url"}), status=400))["error"]

    assert [request.messages[0].role for request in seen] == ["tool", "tool"]
    assert [len(encode(with_images(request.messages[0].content))) for request in seen] == [
        IMAGE_TOKENS + len(encode("found")),
        IMAGE_TOKENS,
    ]
    assert error["message"] == "messages.0.content.0.image_url: Value error, no image in it"


@in_event_loop
async def test_an_image_that_is_nested_too_deeply_is_refused() -> None:
    source: dict[str, object] = {}
    for _ in range(400):
        source = {"source": source}
    async with simulated() as client:
        body = chat_body({"type": "image_url", "image_url": {"url": source}})
        error = (await client.ask("/v1/chat/completions", body, status=400))["error"]

    assert "it is nested too deeply" in error["message"]


@in_event_loop
async def test_the_cache_finds_an_image_again_and_takes_no_other_for_it() -> None:
    async with simulated(profile="token") as client:
        cached = [
            (await client.ask("/v1/chat/completions", chat_body(image_url(url))))["usage"]["prompt_tokens_details"]
            for url in (CAT, CAT, DOG)
        ]

    assert [details["cached_tokens"] > IMAGE_TOKENS for details in cached] == [False, True, False]
