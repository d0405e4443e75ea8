"""Are prompts taken as token ids, do output ids come back, and are usage and stream as a replay reads them?"""

from __future__ import annotations

from collections.abc import Iterator

from rotoscope.replayer.backends.engines import ENGINES, Engine
from rotoscope.replayer.doctor.asking import Answered, Asker
from rotoscope.replayer.doctor.checks import Check, Known, fail, none, ok, warn
from rotoscope.replayer.failures import FailureKind

PROMPT_TOKENS = 37
OUTPUT_TOKENS = 5
_REFUSED = (FailureKind.BAD_REQUEST, FailureKind.NOT_FOUND, FailureKind.HTTP_ERROR)


async def check_ids(asker: Asker, known: Known) -> list[Check]:
    """Send prompts of ids, in each engine's way of asking for output ids until some come back."""
    answered = await _first_with_ids(asker)
    known.takes_ids = answered.is_ok
    known.returns_ids = bool(answered.ids)
    if not answered.is_ok:
        return [_refusal(answered)]
    known.engine = asker.engine.name if answered.ids else None
    known.apis.append("completions")
    return [_taken(answered), _returned(answered, asker), usage_of(answered), stream_of(answered)]


async def _first_with_ids(asker: Asker) -> Answered:
    """Return the first answer that has ids, else one of a request that asks for none."""
    for engine in _ways(asker.engine):
        asker.engine = engine
        answered = await asker.complete(asker.fresh(PROMPT_TOKENS), OUTPUT_TOKENS)
        if answered.ids or _is_hopeless(answered):
            return answered
    asker.asks_for_ids = False
    return await asker.complete(asker.fresh(PROMPT_TOKENS), OUTPUT_TOKENS)


def _ways(first: Engine) -> Iterator[Engine]:
    """Yield one engine for each way of asking, that of the server's own engine first."""
    seen = []
    for engine in (first, *ENGINES.values()):
        if engine.asks_for_ids and engine.asks_for_ids not in seen:
            seen.append(engine.asks_for_ids)
            yield engine


def _is_hopeless(answered: Answered) -> bool:
    """Whether no other fields could make a difference."""
    failure = answered.reply.failure
    return failure is not None and failure.kind is not FailureKind.BAD_REQUEST


def _refusal(answered: Answered) -> Check:
    failure = answered.reply.failure
    assert failure is not None
    if failure.kind in (FailureKind.UNAUTHORIZED, FailureKind.FORBIDDEN):
        return fail("token ids", answered.why, "name the environment variable that holds the key with --api-key-env")
    if failure.kind in _REFUSED or failure.http_status == 501:
        return warn("token ids", f"refused: {answered.why}", "replay with --api chat")
    return fail(
        "token ids",
        answered.why,
        "the server does not complete a small prompt: see its log, or wait longer with --timeout",
    )


def _taken(answered: Answered) -> Check:
    name = "token ids"
    if answered.prompt_tokens is None:
        return warn(name, "accepted, but without a count of prompt tokens", "lengths of prompts cannot be verified")
    if answered.prompt_tokens != PROMPT_TOKENS:
        seen = f"a prompt of {PROMPT_TOKENS} ids counts {answered.prompt_tokens} tokens"
        return fail(name, seen, "the ids are not taken as they are: replay with --api chat")
    return ok(name, f"a prompt of {PROMPT_TOKENS} ids counts {PROMPT_TOKENS} tokens")


def _returned(answered: Answered, asker: Asker) -> Check:
    name, advice = "output ids", "later prompts cannot take outputs up from the cache"
    if not answered.ids:
        return warn(name, "none come back", advice)
    asked = ", ".join(asker.engine.asks_for_ids)
    seen = f"{len(answered.ids)} of {answered.completion_tokens or OUTPUT_TOKENS}, asked for with {asked}"
    return ok(name, seen) if len(answered.ids) == answered.tokens else warn(name, seen, advice)


def usage_of(answered: Answered) -> Check:
    """Say whether an answer tells what it used."""
    if answered.usage_place == "none":
        return warn("usage", "none in the stream", "lengths and hit rate cannot be verified")
    if answered.completion_tokens is None:
        return warn("usage", "no count of output tokens", "lengths of answers cannot be verified")
    return ok("usage", f"in the stream, {answered.usage_place}")


def stream_of(answered: Answered) -> Check:
    """Say whether an answer is a stream of events as a replay reads and times it."""
    reply, most = answered.reply, max(answered.tokens_of_events, default=0)
    if reply.strays:
        return fail("stream", f"{reply.strays} events are no JSON", "something between here and the server garbles it")
    if not most:
        return warn("stream", "no event brings a token", "there is no time to first token")
    if len(answered.tokens_of_events) == 1 and (answered.tokens or 1) > 1:
        return warn("stream", "the whole answer is one event", "time to first token is the latency: is it buffered?")
    if most > 1:
        return warn("stream", f"up to {most} tokens an event", "inter-token latency is a mean over an event")
    return ok("stream", f"one token an event, {'[DONE]' if reply.is_done else 'no [DONE]'}")


def not_tried() -> list[Check]:
    """Return the checks that need prompts of ids, where those are refused."""
    names = ("ignore_eos", "block size", "decode reuse")
    return [none(name, "not tried: it takes prompts of token ids") for name in names]
