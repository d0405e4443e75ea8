"""What an inference engine can reuse of a prompt: block size, last token, generated tokens, thinking.

Each profile says where its rule is known from: a definition, the engine's documentation, or a measurement of a named
version. `benchmarks/engines.py` measures those that run without a GPU; docs/profiles.md shows all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Call

Evidence: TypeAlias = Literal["definition", "documentation", "measurement"]


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """An engine's rule of reuse (R8): whole blocks, at least one prompt token computed, generated tokens or not."""

    name: str
    block_size: int
    """Tokens a block; hits are multiples of it."""
    decode_reuse: bool
    """Whether generated tokens but the last sampled one stay in the cache, as far as they fill blocks."""
    source: str
    """Where the rule is known from: what was read, or which version was measured and how."""
    evidence: Evidence = "definition"
    computed_tokens: int = 1
    """Tokens at the end of each prompt that are computed even if all of it is in the cache."""
    keeps_thinking: bool = True
    """Whether generated tokens are kept of a call that thinks; if not, only its prompt is.

    A chat template that leaves old thinking out makes the next prompt part from the stream where thinking began, so that
    only what stands before it is found either way.
    """

    def resident_tokens(self, call: Call) -> int:
        """Return how many leading tokens of a finished call's stream the engine may hold."""
        if call.reasoning_tokens and not self.keeps_thinking:
            return call.prompt_tokens
        return resident_tokens(self, call.prompt_tokens, call.completion_tokens)


def resident_tokens(profile: EngineProfile, prompt_tokens: int, output_tokens: int) -> int:
    """Return res(x) of R8: P, or P + max(O - 1, 0) where generated tokens are kept."""
    return prompt_tokens + (max(output_tokens - 1, 0) if profile.decode_reuse else 0)


def usable_hit(profile: EngineProfile, common_tokens: int, prompt_tokens: int) -> int:
    """Return the tokens that a hit of `common_tokens` saves: the last prompt token is computed, whole blocks count."""
    usable = max(min(prompt_tokens - profile.computed_tokens, common_tokens), 0)
    return usable // profile.block_size * profile.block_size


PROFILES: dict[str, EngineProfile] = {
    profile.name: profile
    for profile in (
        EngineProfile("token", 1, True, "one token a block, generated tokens kept: no engine can reuse more"),
        EngineProfile("prompt-only", 1, False, "one token a block, generated tokens not kept"),
        EngineProfile(
            "vllm",
            16,
            True,
            "0.32.0 on a processor with blocks of 32: what 51 calls that grow, fork, rewind, repeat and drop thinking found "
            "is this rule, call by call; 16 is the documented default on GPUs, `vllm:cache_config_info` tells a server's own",
            "measurement",
        ),
        EngineProfile(
            "sglang",
            1,
            True,
            "RadixAttention keeps prompts and generations in one tree; `--page-size` 1 is the default, and some attention "
            "backends ask for more",
            "documentation",
        ),
        EngineProfile(
            "sglang-strip-thinking",
            1,
            True,
            "the same with `--strip-thinking-cache`, which keeps only the prompt of a call that has thought",
            "documentation",
            keeps_thinking=False,
        ),
        EngineProfile(
            "trtllm",
            1,
            True,
            "KV cache reuse as it is by default: with `enable_partial_reuse`, which reuses the beginning of a block that "
            "matches as well, so that the 32 tokens of a block do not show",
            "documentation",
        ),
        EngineProfile(
            "trtllm-whole-blocks",
            32,
            True,
            "the same with `enable_partial_reuse` off and `tokens_per_block` 32, the default",
            "documentation",
        ),
        EngineProfile(
            "llama.cpp",
            1,
            True,
            "llama-server of commit 7e4c0a9: what 37 calls that grow and drop thinking found is this rule, call by call; a "
            "slot that is cut back for a fork or a rewind loses the rest, which no rule of this kind knows",
            "measurement",
        ),
        EngineProfile(
            "dynamo-mocker",
            64,
            False,
            "1.6.1 with blocks of 16: what 51 calls found is this rule, call by call; the ids in its answers are not those in "
            "its blocks, so that nobody finds what it generated; 64 is its default where it mocks vLLM",
            "measurement",
        ),
    )
}


def profile_named(name: str, *, block_size: int | None = None) -> EngineProfile:
    """Return a profile by name, with another block size if one is given."""
    if name not in PROFILES:
        raise UnusableInput(f"no engine profile {name!r}: choose one of {', '.join(PROFILES)}")
    profile = PROFILES[name]
    if block_size is None:
        return profile
    if block_size < 1:
        raise UnusableInput(f"block size {block_size} is not a positive number of tokens")
    return replace(profile, block_size=block_size)
