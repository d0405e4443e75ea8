"""One embedding request and its answer as they pass; it is an event of its own beside the calls."""

from __future__ import annotations

from dataclasses import dataclass

from rotoscope.recorder.dialects.embeddings import EmbeddingAnswer
from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.run import Run
from rotoscope.traces.journal import EmbeddingEnded
from rotoscope.traces.model import MAX_COUNT


@dataclass(frozen=True, slots=True)
class AskedEmbedding:
    """An embedding request without its text."""

    text_bytes: int
    thread: int | None
    """Who sends it within the run, by its own word."""


class EmbeddingExchange(Exchange):
    """One embedding request; what failed or was broken off is not recorded."""

    def __init__(self, run: Run, body: bytes, *, asked: AskedEmbedding, at_s: float) -> None:
        super().__init__(body)
        self._run = run
        self._asked = asked
        self._at_s = at_s
        self._answer = EmbeddingAnswer()
        self._status = 0

    @property
    def listens(self) -> bool:
        return True

    def response(self, status: int, *, at_s: float, content_type: str = "") -> None:
        self._status = status

    def chunk(self, data: bytes, *, at_s: float) -> bytes:
        self._answer.take(data)
        return data

    def end(self, *, at_s: float) -> bytes:
        if 200 <= self._status < 300 and not self._run.is_closed:
            try:
                self._run.write([self._ended(at_s)])
            except Exception as error:  # noqa: BLE001 - the agent must not be hurt
                self._run.report("an embedding", error)
        return b""

    def _ended(self, at_s: float) -> EmbeddingEnded:
        self._run.began(self._at_s)  # not before: what fails is not written, and what is written begins at zero
        tokens = self._answer.prompt_tokens
        return EmbeddingEnded(
            at_ms=self._run.ms(self._at_s),
            duration_ms=max(0.0, round((at_s - self._at_s) * 1000, 3)),
            status=self._status,
            prompt_tokens=None if tokens is None else min(tokens, MAX_COUNT),
            text_bytes=self._asked.text_bytes,
            thread=self._asked.thread,
        )
