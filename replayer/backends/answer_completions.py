"""The events of `/v1/completions`: `choices` with text, and the ids of its tokens in the engine's own place."""

from __future__ import annotations

import re

from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import GOES_ON, STRING, Event, Read, Skim, Told, Usage, count, part, word

_TEXTS = re.compile(rb'"text": ?(' + STRING + rb")")


def reading_completions(engine: Engine) -> Read:
    """Return how the events of one answer are read."""

    def read(event: Event) -> Told:
        choice = first_choice(event)
        ids = engine.read_ids(event, choice) or ()
        return Told(
            tokens=len(ids) or int(bool(choice.get("text"))),
            ids=ids,
            usage=usage_of(event),
            finish_reason=word(choice.get("finish_reason")),
            skim=engine.skim_ids if ids else _SKIM_TEXTS,
        )

    return read


def first_choice(event: Event) -> Event:
    """Return the only choice there is, or an empty one: no request asks for several."""
    choices = event.get("choices")
    choice = choices[0] if choices and isinstance(choices, list) else None
    return choice if isinstance(choice, dict) else {}


def usage_of(event: Event) -> Usage | None:
    """Read the counts as OpenAI's completions and chat write them; DeepSeek has a name of its own for cached tokens."""
    usage = event.get("usage")
    if not isinstance(usage, dict):
        return None
    cached = count(part(usage, "prompt_tokens_details").get("cached_tokens"))
    if cached is None:
        cached = count(usage.get("prompt_cache_hit_tokens"))
    return Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), cached)


_SKIM_TEXTS = Skim(GOES_ON, _TEXTS, lambda texts: Told())
"""That there was one is all that matters: prompts are made of ids."""
