from __future__ import annotations

from typing import Any

import pytest

from rotoscope.replayer.backends.engines import ENGINES, engine_named, engine_of_card
from rotoscope.traces import UnusableInput


@pytest.mark.parametrize(
    ("owner", "engine"),
    [
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("tensorrt_llm", "trtllm"),
        ("llamacpp", "llama.cpp"),
        ("nvidia", "dynamo"),
        ("rotoscope-simulator", "simulator"),
        ("system", "openai"),
        ("somebody", "any"),
        (None, "any"),
        (["vllm"], "any"),
    ],
)
def test_an_engine_is_known_by_who_owns_its_model(owner: Any, engine: str) -> None:
    assert engine_of_card({"owned_by": owner}) is ENGINES[engine]


def test_a_card_without_owner_tells_no_engine() -> None:
    assert engine_of_card({}) is ENGINES["any"]


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnusableInput, match="choose one of any, vllm, sglang, trtllm"):
        engine_named("llamacpp")


def test_anthropics_endpoint_takes_the_key_under_its_own_name() -> None:
    assert ENGINES["anthropic"].key_headers("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert ENGINES["any"].key_headers("k") == {"Authorization": "Bearer k"}
