"""How engines differ behind one API: what to send for output ids and exact lengths, and where the ids stand.

A server says which engine it is by `owned_by` in `/v1/models`; whoever knows better says it with `--engine`. Some
servers refuse a request for a field that they do not know (TensorRT-LLM, Dynamo, most hosted endpoints), so nothing is
sent on suspicion, but for `/v1/completions` with token ids as prompt, which hosted endpoints do not take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rotoscope.replayer.backends.grammar import GOES_ON, Event, Skim, Told, part
from rotoscope.traces.errors import UnusableInput

ReadIds: TypeAlias = Callable[[Event, Event], list[Any] | None]
"""Takes an event and its choice; what it returns is not yet checked."""

ANTHROPIC_VERSION = {"anthropic-version": "2023-06-01"}
"""The header without which Anthropic's own endpoint answers nothing, not even which models there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What a server knows beyond the fields that each has, and how it returns the generated ids."""

    name: str
    asks_for_ids: Mapping[str, object] = field(default_factory=dict)
    """What a request to `/v1/completions` says for them."""
    read_ids: ReadIds
    skim_ids: Skim | None = None
    """How events that bring ids and nothing else of use are read; None if only parsing finds the ids."""
    pins_lengths: frozenset[str] = frozenset()
    """APIs in which it knows `ignore_eos` and `min_tokens`; in the others an answer may be shorter than recorded."""
    is_greedy: bool = True
    """Whether it takes a temperature of 0; models that reason refuse any, and whoever hosts them says so."""
    asks_for_running_usage: Mapping[str, object] = field(default_factory=dict)
    """What a request to `/v1/chat/completions` says for the number of tokens so far in each event."""
    chat_length: str = "max_tokens"
    """Its name for the length in `/v1/chat/completions`."""
    least_response: int = 1
    """Fewest output tokens that may be asked for in `/v1/responses`; an answer may then be longer than recorded."""
    closes_connections: bool = False
    """Whether it closes the connection after each streamed answer without saying so in its head."""

    def key_headers(self, api_key: str) -> dict[str, str]:
        """Return the headers in which it looks for the API key."""
        if self.name == "anthropic":
            return {"x-api-key": api_key} | ANTHROPIC_VERSION
        return {"Authorization": f"Bearer {api_key}"}


def ids_in_token_ids(event: Event, choice: Event) -> list[Any] | None:
    """Read the ids of an event as vLLM, SGLang and TensorRT-LLM write them."""
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) else None


def ids_in_logprobs(event: Event, choice: Event) -> list[Any] | None:
    """Read the ids of an event as llama-server writes them; measured with 10434, where `return_tokens` is ignored here."""
    content = part(choice, "logprobs").get("content")
    if not isinstance(content, list):
        return None
    return [token.get("id") for token in content if isinstance(token, dict)]


def ids_in_nvext(event: Event, choice: Event) -> list[Any] | None:
    """Read the ids as Dynamo's frontend writes them: new ones in each event, in older versions all in the last one."""
    ids = part(event, "nvext").get("completion_token_ids")
    return ids if isinstance(ids, list) else None


def no_ids(event: Event, choice: Event) -> list[Any] | None:
    """Read none, where a server returns none."""
    return None


def _skim_ids(name: str, *, mark: bytes = GOES_ON) -> Skim:
    """Return how the lists of ids under this name are read, from events in which the mark stands."""
    return Skim(mark, re.compile(rb'"%b": ?\[([0-9, ]*)\]' % name.encode()), lambda ids: Told(ids=ids))


_RETURN_TOKEN_IDS = {"return_token_ids": True}
_RUNNING_USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
_TOKEN_IDS = _skim_ids("token_ids")
_BY_IDS = frozenset({"completions", "generate"})

ANY_ENGINE = Engine(
    name="any",
    asks_for_ids=_RETURN_TOKEN_IDS,
    read_ids=ids_in_token_ids,
    skim_ids=_TOKEN_IDS,
    pins_lengths=_BY_IDS,
)

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        ANY_ENGINE,
        Engine(
            name="vllm",
            asks_for_ids=_RETURN_TOKEN_IDS,
            read_ids=ids_in_token_ids,
            skim_ids=_TOKEN_IDS,
            pins_lengths=_BY_IDS | {"chat", "responses"},
            asks_for_running_usage=_RUNNING_USAGE,
        ),
        Engine(
            name="sglang",
            asks_for_ids=_RETURN_TOKEN_IDS,
            read_ids=ids_in_token_ids,
            skim_ids=_TOKEN_IDS,
            pins_lengths=_BY_IDS | {"chat"},
            asks_for_running_usage=_RUNNING_USAGE,
        ),
        Engine(
            name="trtllm",
            asks_for_ids={"detokenize": False},
            read_ids=ids_in_token_ids,
            skim_ids=_TOKEN_IDS,
            pins_lengths=_BY_IDS | {"chat"},
        ),
        Engine(
            name="llama.cpp",
            asks_for_ids={"n_probs": 1},
            read_ids=ids_in_logprobs,
            pins_lengths=_BY_IDS | {"chat", "responses"},
            closes_connections=True,
        ),
        Engine(
            name="dynamo",
            asks_for_ids={"nvext": {"extra_fields": ["completion_token_ids"]}},
            read_ids=ids_in_nvext,
            # no finish reason behind it: its choices have none until the last one
            skim_ids=_skim_ids("completion_token_ids", mark=b'"index":0}],'),
            pins_lengths=_BY_IDS | {"chat"},
        ),
        Engine(
            name="simulator",
            asks_for_ids=_RETURN_TOKEN_IDS,
            read_ids=ids_in_token_ids,
            skim_ids=_TOKEN_IDS,
            pins_lengths=_BY_IDS | {"chat", "responses", "messages"},
        ),
        Engine(name="openai", read_ids=no_ids, is_greedy=False, chat_length="max_completion_tokens", least_response=16),
        Engine(name="anthropic", read_ids=no_ids, is_greedy=False),
    )
}
"""By name, which is the value of `--engine`."""

_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt_llm": "trtllm",
    "llamacpp": "llama.cpp",
    "nvidia": "dynamo",
    "rotoscope-simulator": "simulator",
    "openai": "openai",
    "openai-internal": "openai",
    "system": "openai",
}


def engine_named(name: str) -> Engine:
    """Return an engine by its name; raise UnusableInput for another one."""
    if name not in ENGINES:
        raise UnusableInput(f"no engine {name!r}: choose one of {', '.join(ENGINES)}")
    return ENGINES[name]


def engine_of_card(card: Mapping[str, Any]) -> Engine:
    """Return the engine that a model's card in `/v1/models` tells, any engine where it tells none."""
    return ENGINES.get(_OWNERS.get(str(card.get("owned_by")), ""), ANY_ENGINE)
