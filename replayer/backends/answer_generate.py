"""The events of SGLang's own `/generate`: `output_ids` and `meta_info`, then `[DONE]`.

From documentation and source only (SGLang 0.5, tokenizer manager and its benchmark client): it does not run here.
By default each event holds all ids so far; a server with `--incremental-streaming-output` sends only the new ones.
Which of the two it is shows where the number of ids and `completion_tokens` part.
"""

from __future__ import annotations

import re
from typing import Any

from rotoscope.replayer.backends.engines import Engine
from rotoscope.replayer.backends.grammar import GOES_ON, Event, Read, Skim, Told, Usage, count, part, word

_IDS = rb'"output_ids": ?(\[[0-9, ]*\])'


def reading_generate(engine: Engine) -> Read:
    """Return how the events of one answer are read."""
    return _Reader().read


class _Reader:
    """Finds out how the server counts ids, from the first event that has some."""

    def __init__(self) -> None:
        self._seen = 0
        self._skim_all = Skim(GOES_ON, re.compile(_IDS), self._read_new)
        self._skim_newest = Skim(GOES_ON, re.compile(_IDS), self._read_newest, newest_only=True)

    def read(self, event: Event) -> Told:
        meta = part(event, "meta_info")
        reason = meta.get("finish_reason")
        ids = event.get("output_ids")
        ids = ids if isinstance(ids, list) else []
        completion_tokens = count(meta.get("completion_tokens"))
        skim = self._skim(len(ids), completion_tokens)
        new = ids[self._seen :] if self._repeats(len(ids), completion_tokens) else ids
        self._seen += len(new)
        return Told(
            tokens=len(new),
            ids=new,
            usage=Usage(count(meta.get("prompt_tokens")), completion_tokens, count(meta.get("cached_tokens"))),
            finish_reason=_kind(reason),
            error=reason if _kind(reason) == "abort" and isinstance(reason, dict) else None,
            skim=skim,
        )

    def _repeats(self, ids: int, completion_tokens: int | None) -> bool:
        """Return whether an event holds the ids of those before it."""
        return ids == completion_tokens if completion_tokens is not None else ids > self._seen

    def _skim(self, ids: int, completion_tokens: int | None) -> Skim | None:
        """Return how the next events can be skimmed, None while both ways of counting come to the same."""
        if not self._seen or not ids or completion_tokens is None:
            return None
        if ids == completion_tokens:
            return self._skim_newest
        return self._skim_all if self._seen + ids == completion_tokens else None

    def _read_new(self, lists: list[list[Any]]) -> Told:
        new = [token for ids in lists for token in ids]
        self._seen += len(new)
        return Told(ids=new)

    def _read_newest(self, lists: list[list[Any]]) -> Told:
        new = lists[-1][self._seen :]
        self._seen += len(new)
        return Told(ids=new)


def _kind(reason: Any) -> str | None:
    """Return a finish reason, which is an object with a type, or only that in old versions."""
    return word(reason.get("type")) if isinstance(reason, dict) else word(reason)
