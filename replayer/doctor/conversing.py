"""The same questions for servers that take no token ids, put as chats of random words.

Their tokens cannot be counted out beforehand, so block size and reuse of outputs stay unknown.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from rotoscope.replayer.doctor.asking import Answered, read_answer
from rotoscope.replayer.doctor.caching import truthful
from rotoscope.replayer.doctor.checks import Check, Known, fail, warn
from rotoscope.replayer.doctor.ids import stream_of, usage_of
from rotoscope.replayer.doctor.lengths import LENGTHS, lengths_of
from rotoscope.replayer.doctor.wire import Wire

_LONG_WORDS = 700
"""1,400 tokens and more: hosted endpoints cache no prompt below 1,024."""
_SHORT_WORDS = 8
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


async def check_chat(wire: Wire, known: Known) -> list[Check]:
    """Look at usage, stream, output lengths and cached tokens of chats."""
    answers = [await _chat(wire, known, _words(_SHORT_WORDS), tokens) for tokens in LENGTHS]
    last = answers[-1]
    if not last.is_ok:
        return [
            fail(
                "stream",
                last.why,
                "the server does not answer a small streamed chat: see its log, or wait longer with --timeout",
            )
        ]
    text = _words(_LONG_WORDS)
    fresh, repeated = [await _chat(wire, known, text, 1) for _ in range(2)]
    length = fresh.prompt_tokens or _LONG_WORDS
    known.reports_cached = repeated.cached_tokens is not None
    return [usage_of(last), stream_of(last), _lengths(answers, known), truthful(fresh, repeated, length)]


def _lengths(answers: Sequence[Answered], known: Known) -> Check:
    check = lengths_of(answers)
    if check.verdict == "fail" and "chat" not in known.server.engine.pins_lengths:
        return warn(check.name, check.seen, "this server is not known to take lengths: answers may be shorter")
    return check


async def _chat(wire: Wire, known: Known, text: str, tokens: int) -> Answered:
    engine = known.server.engine
    body: dict[str, object] = {
        "model": known.server.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": text}],
        engine.chat_length: tokens,
        **({"temperature": 0} if engine.is_greedy else {}),
        **({"ignore_eos": True, "min_tokens": tokens} if "chat" in engine.pins_lengths else {}),
    }
    return read_answer(await wire.post(wire.api / "chat/completions", body), engine)


def _words(count: int) -> str:
    """Return random words that nobody has sent before."""
    random = secrets.SystemRandom()
    syllables = ["".join((random.choice(_CONSONANTS), random.choice(_VOWELS))) for _ in range(2 * count)]
    return " ".join("".join(pair) for pair in zip(syllables[::2], syllables[1::2], strict=True))
