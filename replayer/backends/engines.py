"""How engines behind `/v1/completions` differ: what to send for output ids, and where they stand in the answer.

A server says which engine it is by `owned_by` in `/v1/models`. TensorRT-LLM refuses fields that it does not know,
so nothing is sent on suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

Choice: TypeAlias = dict[str, Any]
"""One entry of `choices` as parsed from JSON."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to ask for the generated ids and to find them in a choice."""

    name: str
    fields: Mapping[str, object]
    """What the request says beside the fields that all engines know."""
    read_ids: Callable[[Choice], list[Any] | None]
    """What it returns is not yet checked."""
    ids_pattern: re.Pattern[bytes] | None = None
    """Matches the ids of an event as the engine writes them; None if only parsing finds them."""
    closes_connections: bool = False
    """Whether it closes the connection after each streamed answer without saying so in its head."""


def ids_in_token_ids(choice: Choice) -> list[Any] | None:
    """Read the ids of an event as vLLM, SGLang and TensorRT-LLM write them."""
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) else None


def ids_in_logprobs(choice: Choice) -> list[Any] | None:
    """Read the ids of an event as llama-server writes them; measured with 10434, where `return_tokens` is ignored here."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return None
    return [token.get("id") for token in content if isinstance(token, dict)]


_RETURN_TOKEN_IDS = MappingProxyType({"return_token_ids": True})
_TOKEN_IDS = re.compile(rb'"token_ids":\[([0-9,]*)\]')

ANY_ENGINE = Engine("any", _RETURN_TOKEN_IDS, ids_in_token_ids, _TOKEN_IDS)

ENGINES: dict[str, Engine] = {
    "vllm": Engine("vllm", _RETURN_TOKEN_IDS, ids_in_token_ids, _TOKEN_IDS),
    "sglang": Engine("sglang", _RETURN_TOKEN_IDS, ids_in_token_ids, _TOKEN_IDS),
    "tensorrt_llm": Engine("tensorrt_llm", MappingProxyType({"detokenize": False}), ids_in_token_ids, _TOKEN_IDS),
    "llamacpp": Engine("llamacpp", MappingProxyType({"n_probs": 1}), ids_in_logprobs, closes_connections=True),
}
"""By the name that the server gives as `owned_by`."""
