"""The answer to a call as its bytes pass, for what is told of it without its text: usage, how it ended, whether it failed."""

from __future__ import annotations

from collections.abc import Sequence

from rotoscope.recorder.dialects.answer import Answer, Dialect
from rotoscope.recorder.dialects.embeddings import EmbeddingAnswer
from rotoscope.recorder.dialects.request import Request as Asked
from rotoscope.recorder.json_list import ListFilter
from rotoscope.recorder.sse import EventFilter
from rotoscope.recorder.usage import Usage
from rotoscope.sdk.spans import counts

LARGEST_BYTES = 64 << 20
"""Of an answer in one piece that is longer nothing is told."""


class HeardAnswer:
    """An answer as it arrives; whatever is wrong with it, its bytes pass."""

    def __init__(self, dialect: Dialect, asked: Asked, *, withholds: bool) -> None:
        """Hear an answer; `withholds` keeps the usage of a response stream from the client, who did not ask for it."""
        self._dialect, self._is_stream, self._withholds = dialect, asked.is_stream, withholds
        self._answer: Answer | None = dialect.answer(asked.outputs)
        self._filter: EventFilter | ListFilter | None = None
        self._whole: list[bytes] = []
        self._left_bytes = LARGEST_BYTES
        self._status = 0

    def withhold_nothing(self) -> None:
        """Tell that nothing was added to the request."""
        self._withholds = False

    def response(self, status: int, content_type: str) -> None:
        """Tell that the answer begins."""
        self._status = status
        kind = content_type.partition(";")[0].strip().lower()
        if kind == "text/event-stream" or (self._is_stream and status == 200 and not kind.endswith("json")):
            self._filter = EventFilter(self._take, withholds=self._withholds)
        elif self._is_stream and self._dialect.streams_lists and status == 200:
            self._filter = ListFilter(self._take)

    def chunk(self, data: bytes) -> bytes:
        """Take in some of the answer and return what is to be passed on of it now."""
        if self._answer is None:
            return data
        if self._filter is None:
            self._left_bytes -= len(data)
            if self._left_bytes >= 0:
                self._whole.append(data)
            return data
        held = self._filter.held
        try:
            return self._filter.feed(data)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(error)
            self.forget()
            return held + data

    def end(self) -> bytes:
        """Tell that the answer is whole and return what was still held back."""
        if self._answer is None:
            return b""
        held = b"" if self._filter is None else self._filter.held
        try:
            if self._filter is not None:
                return self._filter.finish()
            if self._left_bytes >= 0:
                self._answer.take_whole(b"".join(self._whole), 0.0)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(error)
            self.forget()
        return held

    def forget(self) -> None:
        """Drop all that was said."""
        self._answer, self._filter = None, None
        self._whole.clear()

    @property
    def usage(self) -> Usage:
        """What the server counted."""
        return (None if self._answer is None else self._answer.usage) or Usage()

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        """How its outputs ended, as far as the server said; in the words of traces."""
        outputs: Sequence[object] = () if self._answer is None else [x.finish_reason for x in self._answer.outputs]
        return tuple(str(reason) for reason in outputs if reason != "unknown")

    @property
    def error_type(self) -> str:
        """The status where the server refused, or that it told of an error in its answer; empty where it did neither."""
        if self._status >= 400:
            return str(self._status)
        return "error" if self._answer is not None and self._answer.is_error else ""

    def _take(self, data: bytes) -> bool:
        return self._answer is not None and self._answer.take_event(data, 0.0)


class HeardEmbedding:
    """The answer to an embedding request, which has no stream."""

    finish_reasons: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._answer = EmbeddingAnswer()
        self._status = 0

    def withhold_nothing(self) -> None:
        """Do nothing, as nothing is withheld."""

    def response(self, status: int, content_type: str) -> None:
        """Tell that the answer begins."""
        self._status = status

    def chunk(self, data: bytes) -> bytes:
        """Take in some of the answer and return it."""
        self._answer.take(data)
        return data

    def end(self) -> bytes:
        """Hold nothing back."""
        return b""

    def forget(self) -> None:
        """Drop all that came."""
        self._answer = EmbeddingAnswer()

    @property
    def usage(self) -> Usage:
        """What the server counted."""
        return Usage(prompt_tokens=self._answer.prompt_tokens)

    @property
    def error_type(self) -> str:
        """The status where the server refused."""
        return str(self._status) if self._status >= 400 else ""
