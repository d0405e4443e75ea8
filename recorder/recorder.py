"""The recorder: calls as they happen in, journal records out, a trace at the end; it does no I/O but the journal's.

Nothing it does can hurt the agent: every method is guarded. Where something goes wrong the bytes are forwarded as they
came, the recording of that call stops, and `trouble` says so once. Text lives in RAM until its call is closed, and where
a tokenizer is to count it until it has been handed out for that; the key lives in RAM until the recorder is closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.conversation_exchange import ConversationExchange, begins_empty, changed_conversation
from rotoscope.recorder.counting import Counted, Uncounted
from rotoscope.recorder.dialects.embeddings import embedded_bytes, is_embedding
from rotoscope.recorder.dialects.registry import dialect_of
from rotoscope.recorder.dialects.request import NotACall
from rotoscope.recorder.dialects.stream_options import with_usage
from rotoscope.recorder.embedding_exchange import AskedEmbedding, EmbeddingExchange
from rotoscope.recorder.exchange import Exchange, RecordedExchange
from rotoscope.recorder.hashing import new_key
from rotoscope.recorder.marks import Mark
from rotoscope.recorder.names import Names
from rotoscope.recorder.run import Run
from rotoscope.recorder.told import record_of
from rotoscope.traces.journal import PartCounted
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.model import Trace
from rotoscope.traces.phrases import counted

_OTHER_DIALECTS = {
    ":batchGenerateContent": "a batch",
    "/api/chat": "Ollama's chat",
    "/api/generate": "Ollama's generate",
    "/converse": "Bedrock's converse",
    "/converse-stream": "Bedrock's converse",
    "/messages/batches": "a batch",
    "/responses/compact": "a compaction of responses",
}
"""What a model answers too, by how the path ends."""


def may_concern(path: str, body: bytes) -> bool:
    """Tell whether a recorder has anything to do with a request, by its path without query.

    Who hears requests to servers of any kind asks before it begins a run.
    """
    path = path.rstrip("/")
    is_other = path.endswith(tuple(_OTHER_DIALECTS)) or changed_conversation(path, body) is not None
    return is_other or dialect_of(path) is not None or is_embedding(path) or begins_empty(path, body)


class Recorder:
    """Record one run."""

    def __init__(
        self,
        journal: JournalWriter,
        *,
        key: bytes | None = None,
        campaign: str | None = None,
        tokenizer: str | None = None,
        domain_of: Callable[[bytes], int] | None = None,
        names: Names | None = None,
    ) -> None:
        """Begin a run; `tokenizer` is the name of what counts the texts that `uncounted` hands out.

        `domain_of` numbers cache domains by their digests, for runs that share them; `names` takes the names in RAM.
        """
        if campaign is not None and not re.fullmatch("[0-9a-f]{8,32}", campaign):
            raise ValueError("a campaign is named by 8 to 32 hexadecimal digits")
        self._run = Run(
            journal, key=key or new_key(), campaign=campaign, tokenizer=tokenizer, domain_of=domain_of, names=names
        )
        self._names = names
        self.passed = 0
        """Requests that were forwarded unrecorded."""

    def __repr__(self) -> str:
        return f"Recorder({self._run.calls} calls)"

    @property
    def trouble(self) -> list[str]:
        """What could not be recorded, each once, without content."""
        return self._run.trouble

    def request(
        self, path: str, body: bytes, *, at_s: float, headers: Mapping[str, str] = {}, asks_usage: bool = True
    ) -> Exchange:
        """Take in a request as it arrives; `at_s` is monotonic. Never raises.

        `asks_usage` lets it ask for the usage of a response stream where the client does not.
        """
        path = path.partition("?")[0].rstrip("/")
        if is_embedding(path) and body and not self._run.is_closed:
            return self._embed(body, at_s, headers)
        if begins_empty(path, body) and not self._run.is_closed:
            self.passed += 1
            return ConversationExchange(self._run, body)
        dialect = dialect_of(path)
        if dialect is None or not body or self._run.is_closed:
            return self._pass(path, body)
        try:
            asked = self._run.reader.read(dialect, path, body, headers)
            asked = asked if asks_usage else replace(asked, is_without_usage=False)
            upstream = with_usage(body, has_stream_options=asked.has_stream_options) if asked.is_without_usage else body
            calls = self._run.open(asked, at_s)
            return RecordedExchange(self._run, upstream, came=body, asked=asked, calls=calls, at_s=at_s)
        except NotACall as error:
            self._run.warn(f"a request was not recorded: {error}")
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.report("a request", error)
        self.passed += 1
        return Exchange(body)

    def _embed(self, body: bytes, at_s: float, headers: Mapping[str, str]) -> Exchange:
        try:
            text_bytes, request = embedded_bytes(body)
            asked = AskedEmbedding(text_bytes, self._run.reader.thread_of(headers, request))
            return EmbeddingExchange(self._run, body, asked=asked, at_s=at_s)
        except NotACall as error:
            self._run.warn(f"a request was not recorded: {error}")
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.report("an embedding", error)
        self.passed += 1
        return Exchange(body)

    @property
    def waiting_texts(self) -> int:
        """How many texts wait to be handed out for counting."""
        return len(self._run.waiting)

    @property
    def waiting_chars(self) -> int:
        """How many characters they have."""
        return self._run.waiting.chars

    def uncounted(self) -> list[Uncounted]:
        """Return texts that wait to be counted, and forget them; none when all were handed out."""
        return self._run.waiting.take()

    def counted(self, counts: Sequence[Counted]) -> None:
        """Take in the counts of texts that were handed out. Never raises."""
        if self._run.is_closed:
            return
        try:
            self._run.write([_part_counted(count) for count in counts])
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.report("a count", error)

    def mark(self, marks: Sequence[Mark]) -> None:
        """Take in what an agent tells of itself. Never raises."""
        if self._run.is_closed:
            return
        try:
            self._run.write([record_of(mark, self._run) for mark in marks])
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.report("what the agent told", error)

    def close(self) -> Trace | None:
        """End the recording, forget the key and build the trace; None when no call was seen."""
        if self._run.is_closed:
            return None
        journal = self._run.close()
        try:
            built = build_trace(journal)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._run.warn(f"the trace could not be built ({type(error).__name__}): 'rotoscope recover' tells why")
            return None
        if built.refused:
            self._run.warn(f"not in the trace: {counted(built.refused, 'request')} that the server refused")
        if built.trace is not None and self._names is not None:
            self._names.place(built.trace, built.threads)
        return built.trace

    def _pass(self, path: str, body: bytes) -> Exchange:
        self.passed += 1
        if (name := changed_conversation(path, body)) is not None and not self._run.is_closed:
            self._run.reader.conversation_changed(name)
        for ending, dialect in _OTHER_DIALECTS.items():
            if path.endswith(ending) and body:
                self._run.warn(f"a request that is not recorded was passed on: {dialect}")
        return Exchange(body)


def _part_counted(count: Counted) -> PartCounted:
    return PartCounted(
        part=count.part,
        tokens=count.tokens,
        reasoning_tokens=count.reasoning_tokens,
        is_estimate=count.is_estimate,
    )
