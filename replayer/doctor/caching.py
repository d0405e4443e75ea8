"""Are cached tokens told truthfully, how large is a block, and are generated tokens kept?

A fresh prompt must show nothing, its repeat nearly all. The block size follows from prompts that share 2^n - 1 tokens
with it: each size below rounds such a number down to another multiple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rotoscope.replayer.doctor.asking import Answered, Asker
from rotoscope.replayer.doctor.checks import Check, Known, fail, none, ok, warn
from rotoscope.replayer.doctor.counting import Counters

_PROMPT_TOKENS = 2000
_LEAST_PROMPT_TOKENS = 64
_NAMES = ("cached tokens", "block size", "decode reuse")
_REPEATS = 3
"""Behind a router the first repeat may reach a server that has not seen the prompt."""
_LARGEST_BLOCK = 1024
_LARGEST_BLOCK_FOR_OUTPUTS = 256
"""A whole block must be generated to see whether outputs are kept."""
_ADVICE = "vLLM: --enable-prompt-tokens-details, SGLang: --enable-cache-report"


async def check_caching(asker: Asker, known: Known, counters: Counters | None = None) -> list[Check]:
    """Repeat a prompt, share parts of it, and send one back with its own output.

    What the answers do not tell is taken from the server's counters, if it serves nobody else meanwhile.
    """
    length = min(_PROMPT_TOKENS, (known.context_tokens or 2 * _PROMPT_TOKENS) // 2)
    if length < _LEAST_PROMPT_TOKENS:
        return [none(name, "not tried: the context is too short") for name in _NAMES]
    prompt, fresh, repeated = await _twice(asker, length)
    known.reports_cached = repeated.cached_tokens is not None
    check = truthful(fresh, repeated, length)
    if not known.reports_cached and check.verdict != "fail" and counters is not None and counters.tells_cached:
        asker.counters = counters
        await counters.look()
        prompt, fresh, repeated = await _twice(asker, length)
        by_counters = truthful(fresh, repeated, length)
        check = replace(check, seen=f"not reported; by counters {by_counters.seen}")
    if check.verdict == "fail" or not repeated.cached_tokens:
        return [check, *(none(name, "not tried: nothing was cached") for name in _NAMES[1:])]
    block = await _check_block_size(asker, prompt, repeated.cached_tokens, known)
    return [check, block, await _check_decode_reuse(asker, known)]


async def _twice(asker: Asker, length: int) -> tuple[list[int], Answered, Answered]:
    prompt = asker.fresh(length)
    fresh = await asker.complete(prompt, 1)
    return prompt, fresh, await _repeat(asker, prompt)


async def _repeat(asker: Asker, prompt: Sequence[int]) -> Answered:
    best = await asker.complete(prompt, 1)
    for _ in range(_REPEATS - 1):
        if best.cached_tokens or not best.is_ok:
            break
        best = await asker.complete(prompt, 1)
    return best


def truthful(fresh: Answered, repeated: Answered, length: int) -> Check:
    """Judge what a server tells of a prompt of `length` tokens, sent for the first time and again."""
    name = "cached tokens"
    for answered in (fresh, repeated):
        if not answered.is_ok:
            return fail(
                name,
                f"a prompt of {length:,} tokens: {answered.why}",
                "see the server's log, or wait longer with --timeout",
            )
    seen = f"{fresh.cached_tokens or 0:,} of a fresh prompt, {repeated.cached_tokens or 0:,} of {length:,} repeated"
    if fresh.cached_tokens is None and repeated.cached_tokens is None:
        return warn(name, "not reported", _ADVICE)
    if (fresh.cached_tokens or 0) > length // 10:
        return fail(name, seen, "cached tokens are not told truthfully: the hit rate is not to be believed")
    if not repeated.cached_tokens:
        return warn(name, seen, "the prompt cache is off or not told of: the hit rate will be 0")
    if repeated.cached_tokens >= length:
        return warn(name, seen, "at least one token is always computed: the count is of something else")
    if repeated.cached_tokens < length // 2:
        return warn(name, seen, "only a part of a prompt is kept")
    return ok(name, seen)


async def _check_block_size(asker: Asker, prompt: list[int], of_repeat: int, known: Known) -> Check:
    shares = _shares(len(prompt))
    found = [(len(prompt) - 1, of_repeat)]
    for shared in shares:
        answered = await asker.complete(asker.parting(prompt, shared, min(shared + 64, len(prompt))), 1)
        found.append((shared, answered.cached_tokens or 0))
    known.block_size = block_size_of(found)
    pairs = ", ".join(f"{cached:,} of {shared:,}" for shared, cached in found)
    if known.block_size is None:
        return warn("block size", f"no one size explains {pairs}", "choose --profile and --block-size by hand")
    plural = "token" if known.block_size == 1 else "tokens"
    return ok("block size", f"{known.block_size} {plural}: cached {pairs} shared")


def _shares(length: int) -> list[int]:
    """Return two numbers of tokens to share, the larger one first: a cache may be cut back to what is shared."""
    power = 1 << ((length - 1).bit_length() - 1)
    return [power - 1, power // 4 * 3 - 1]


def block_size_of(found: Sequence[tuple[int, int]]) -> int | None:
    """Return the block size by which each number of shared tokens gives the cached ones; None if there is none."""
    sizes = (
        size
        for size in range(1, _LARGEST_BLOCK + 1)
        if all(shared // size * size == cached for shared, cached in found)
    )
    return next(sizes, None)


async def _check_decode_reuse(asker: Asker, known: Known) -> Check:
    """Send a prompt of whole blocks back with its output, which is one token more than a block."""
    name, block = "decode reuse", known.block_size or 1
    if not known.returns_ids:
        return none(name, "not tried: output ids do not come back")
    if block > _LARGEST_BLOCK_FOR_OUTPUTS:
        return none(name, f"not tried: it takes an output of {block} tokens")
    blocks = max(1, 64 // block)
    prompt, tokens = asker.fresh(blocks * block), max(block + 1, 9)
    first = await asker.complete(prompt, tokens)
    if not first.is_ok or len(first.ids) != tokens:
        return none(name, "not tried: the answer has another length")
    again = await asker.complete([*prompt, *first.ids, *asker.fresh(16)], 1)
    kept = (again.cached_tokens or 0) - len(prompt)
    known.decode_reuse = kept > 0
    seen = f"{again.cached_tokens or 0} cached of a prompt of {len(prompt)} and its output of {tokens}"
    return ok(name, f"{'kept' if kept > 0 else 'not kept'}: {seen}")
