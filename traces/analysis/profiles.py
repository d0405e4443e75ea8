"""What an inference engine can reuse of a prompt: its block size and whether it keeps generated tokens."""

from __future__ import annotations

from dataclasses import dataclass

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Call


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """An engine's rule of reuse (R8): whole blocks, at least one prompt token computed, generated tokens or not."""

    name: str
    block_size: int
    """Tokens a block; hits are multiples of it."""
    decode_reuse: bool
    """Whether generated tokens but the last sampled one stay in the cache."""
    source: str
    """Where the rule is known from: documentation or measurement."""

    def resident_tokens(self, call: Call) -> int:
        """Return how many leading tokens of a finished call's stream the engine may hold."""
        return resident_tokens(self, call.prompt_tokens, call.completion_tokens)


def resident_tokens(profile: EngineProfile, prompt_tokens: int, output_tokens: int) -> int:
    """Return res(x) of R8: P, or P + max(O - 1, 0) where generated tokens are kept."""
    return prompt_tokens + (max(output_tokens - 1, 0) if profile.decode_reuse else 0)


def usable_hit(profile: EngineProfile, common_tokens: int, prompt_tokens: int) -> int:
    """Return the tokens that a hit of `common_tokens` saves: one prompt token is computed, whole blocks count."""
    return min(prompt_tokens - 1, common_tokens) // profile.block_size * profile.block_size


PROFILES: dict[str, EngineProfile] = {
    profile.name: profile
    for profile in (
        EngineProfile("token", 1, True, "definition: one token a block, generated tokens kept"),
        EngineProfile("prompt-only", 1, False, "definition: one token a block, generated tokens not kept"),
        EngineProfile("vllm", 16, True, "documentation: automatic prefix caching, default block size on GPUs"),
        EngineProfile("sglang", 1, True, "documentation: radix attention, default page size"),
        EngineProfile("trtllm", 32, True, "documentation: KV cache reuse, default tokens per block"),
        EngineProfile("llama.cpp", 1, True, "measurement: llama-server 10434, cached tokens of repeated prompts"),
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
    return EngineProfile(profile.name, block_size, profile.decode_reuse, profile.source)
