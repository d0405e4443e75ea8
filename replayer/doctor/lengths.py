"""Are output lengths obeyed, even where the model would end earlier?

An answer that ends early by itself is needed to see that. It is looked for by pushing the end-of-text token with
`logit_bias`, which token that is being found out by trying, and else among long answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from rotoscope.replayer.doctor.asking import Answered, Asker
from rotoscope.replayer.doctor.checks import Check, Known, fail, none, ok, warn
from rotoscope.replayer.doctor.endpoints import tokenize

LENGTHS = (1, 7, 24)
_PUSHED_TOKENS = 6
_NATURAL_TOKENS = 64
_SIMULATED_TOKENS = 300
"""The simulator does not push tokens; its answers are at most 256 tokens long and cost nothing."""
_NATURAL_TRIES = 2
_PUSH = 100
"""The strongest `logit_bias` that OpenAI's API knows."""
_ENDS = ("</s>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<eos>", "<end_of_turn>", "<|return|>")
_END_IDS = (2, 151645, 128001, 128009, 151643, 50256, 200002, 1)
"""Of Llama 2 and Mistral, Qwen, Llama 3, Qwen base, GPT-2, gpt-oss, Gemma."""


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """A request whose answer ends early by itself."""

    prompt: list[int]
    tokens: int
    """Asked for."""
    ended_after: int
    fields: dict[str, object] = field(default_factory=dict)


async def check_lengths(asker: Asker, known: Known) -> list[Check]:
    """Ask for several lengths, then for more than the model would say."""
    answers = [await asker.complete(asker.fresh(16), tokens) for tokens in LENGTHS]
    check = lengths_of(answers)
    return [check, *(await _check_end(asker, known) if check.verdict == "ok" else [])]


def lengths_of(answers: Sequence[Answered]) -> Check:
    """Say whether answers have the lengths that were asked for, which are `LENGTHS`."""
    got = [answered.tokens for answered in answers]
    wanted = f"asked for {_words(LENGTHS)} tokens"
    if any(not answered.is_ok for answered in answers):
        why = next(answered.why for answered in answers if not answered.is_ok)
        return fail(
            "output length",
            f"{wanted}: {why}",
            "the server does not complete small prompts: see its log, or wait longer with --timeout",
        )
    if None in got:
        return warn("output length", f"{wanted}: not told how many came", "lengths of answers cannot be verified")
    if got != list(LENGTHS):
        seen = f"{wanted}, got {_words([tokens or 0 for tokens in got])}"
        return fail("output length", seen, "answers have other lengths than recorded")
    return ok("output length", f"{_words(LENGTHS)} tokens as asked for")


async def _check_end(asker: Asker, known: Known) -> list[Check]:
    end = await _early_end(asker, known)
    if end is None:
        return [none("ignore_eos", "not provable: no answer could be made to end early")]
    both = await _ends_after(asker, end, ignore_eos=True, min_tokens=end.tokens)
    eos = await _ends_after(asker, end, ignore_eos=True)
    least = await _ends_after(asker, end, min_tokens=end.tokens)
    alone = f"ignore_eos alone: {_obeyed(eos, end)}, min_tokens alone: {_obeyed(least, end)}"
    seen = f"{both} of {end.tokens} tokens where the model ends after {end.ended_after} ({alone})"
    if both == end.tokens:
        return [ok("ignore_eos", seen)]
    return [fail("ignore_eos", seen, "answers may be shorter than recorded, and later prompts miss the cache")]


async def _ends_after(asker: Asker, end: EarlyEnd, **pins: object) -> int | None:
    return (await asker.complete(end.prompt, end.tokens, pinned=False, **end.fields, **pins)).tokens


async def _early_end(asker: Asker, known: Known) -> EarlyEnd | None:
    if not known.server.simulated:
        async for token in _end_ids(asker):
            found = await _try_end(asker, _PUSHED_TOKENS, {"logit_bias": {str(token): _PUSH}})
            if found:
                return found
    for _ in range(_NATURAL_TRIES):
        tokens = _SIMULATED_TOKENS if known.server.simulated else _NATURAL_TOKENS
        found = await _try_end(asker, tokens, {})
        if found:
            return found
    return None


async def _try_end(asker: Asker, tokens: int, fields: dict[str, object]) -> EarlyEnd | None:
    prompt = asker.fresh(16)
    answered = await asker.complete(prompt, tokens, pinned=False, **fields)
    if not answered.is_ok or answered.tokens is None or answered.tokens >= tokens:
        return None
    return EarlyEnd(prompt, tokens, answered.tokens, fields)


async def _end_ids(asker: Asker) -> AsyncIterator[int]:
    """Yield ids that may be the end of text: by the server's tokenizer, else those of well-known models."""
    seen = set()
    for text in _ENDS:
        ids = await tokenize(asker.wire, asker.model, text)
        if ids is None:
            break
        if len(ids) == 1 and ids[0] not in seen:
            seen.add(ids[0])
            yield ids[0]
    for token in _END_IDS:
        if not seen and token < asker.vocabulary.high:
            yield token


def _obeyed(tokens: int | None, end: EarlyEnd) -> str:
    return "obeyed" if tokens == end.tokens else "ignored"


def _words(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}"
