"""One run while it is recorded: its key, its journal, and what is known of it between calls."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Sequence

from rotoscope.recorder.counting import WaitingTexts
from rotoscope.recorder.hashing import KeyedHash
from rotoscope.recorder.names import Names
from rotoscope.recorder.packing import NestedTooDeep
from rotoscope.recorder.parts import KnownParts
from rotoscope.recorder.reading import Asked, RequestReader
from rotoscope.recorder.token_ids import MeasuredPrompts
from rotoscope.traces.journal import CallOpened, Journal, JournalHeader, JournalRecord
from rotoscope.traces.journal_files import JournalWriter

_log = logging.getLogger(__name__)


class Run:
    """Number what happens in a run and write it down; what fails is told once and hurts nobody."""

    def __init__(
        self,
        journal: JournalWriter,
        *,
        key: bytes,
        campaign: str | None,
        tokenizer: str | None = None,
        domain_of: Callable[[bytes], int] | None = None,
        names: Names | None = None,
    ) -> None:
        self._journal: JournalWriter | None = journal
        self._header = JournalHeader(
            trace_id=secrets.token_hex(8),
            campaign=campaign or secrets.token_hex(8),
            is_named=campaign is not None,
            tokenizer=tokenizer,
        )
        self._records: list[JournalRecord] = []
        self._hash: KeyedHash | None = KeyedHash(key)
        self.waiting = WaitingTexts()
        """Texts that the tokenizer is to count, if there is one."""
        self.parts = KnownParts(self._hash, None if tokenizer is None else self.waiting)
        self._names = names
        self.reader = RequestReader(self._hash, self.parts, domain_of=domain_of, names=names)
        self._tools: dict[bytes, int] = {}
        self._measured: dict[int, MeasuredPrompts] = {}
        self._regions: dict[str, int] = {}
        self._trouble: dict[str, None] = {}
        self.calls = 0
        self.requests = 0
        self._start_s: float | None = None
        try:
            journal.begin(self._header)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._lose_journal(error)

    def __repr__(self) -> str:
        return f"Run({self.calls} calls)"

    @property
    def is_closed(self) -> bool:
        return self._hash is None

    @property
    def trouble(self) -> list[str]:
        """What could not be recorded, each once, without content."""
        return list(self._trouble)

    def began(self, at_s: float) -> None:
        """Tell that a request has arrived: the first one's time is that of the run."""
        if self._start_s is None:
            self._start_s = at_s

    def open(self, asked: Asked, at_s: float) -> range:
        """Write down a request that arrived and return the numbers of its calls."""
        self.began(at_s)
        calls = range(self.calls, self.calls + asked.outputs)
        request = self.requests if asked.outputs > 1 else None
        at_ms = self.ms(at_s)
        self.calls += asked.outputs
        self.requests += 1
        self.write(
            [
                CallOpened(
                    call=call,
                    dialect=asked.dialect.name,
                    domain=asked.domain,
                    head=asked.head(index),
                    request=request,
                    at_ms=at_ms,
                    thread=asked.thread,
                    parent=asked.parent,
                    thread_source=asked.thread_source,
                    window=asked.window,
                    previous=asked.previous,
                    is_opaque=asked.is_opaque,
                    answers=asked.answers,
                    results=asked.results,
                    aux=asked.aux,
                )
                for index, call in enumerate(calls)
            ]
        )
        return calls

    def write(self, records: Sequence[JournalRecord]) -> None:
        """Keep records and write them to the journal, the parts that they name first."""
        records = [*self.parts.take_fresh(), *records]
        self._records.extend(records)
        if self._journal is None or not records:
            return
        try:
            self._journal.write(records)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._lose_journal(error)

    def ms(self, at_s: float) -> float:
        """Return a monotonic time in milliseconds since the run's first request."""
        return max(0.0, round((at_s - (self._start_s or 0.0)) * 1000, 3))

    def moment_ms(self, at_s: float) -> float:
        """Return a monotonic time of what an agent tells, which may lie before the run's first request."""
        self.began(at_s)
        return round((at_s - (self._start_s or 0.0)) * 1000, 3) + 0.0  # no zero from below

    def tool(self, name: str) -> int:
        """Return the pseudonym of a tool."""
        assert self._hash is not None
        tool = self._tools.setdefault(self._hash.digest(name.encode(errors="surrogatepass")), len(self._tools) + 1)
        if self._names is not None:
            self._names.tool(tool, name)
        return tool

    def region(self, name: str) -> int:
        """Return the number of a region that the agent tells of."""
        return self._regions.setdefault(name, len(self._regions))

    def measured(self, domain: int) -> MeasuredPrompts:
        """Return the measured prompts of a domain."""
        return self._measured.setdefault(domain, MeasuredPrompts())

    def report(self, what: str, error: Exception) -> None:
        """Tell of a failure by its kind: the text of an exception of others may quote what was being read."""
        if isinstance(error, NestedTooDeep):
            self.warn(f"{what} was not recorded: {error}")
        else:
            self.warn(f"{what} was not recorded, the recorder failed ({type(error).__name__})")

    def warn(self, message: str) -> None:
        """Tell something once."""
        if message not in self._trouble:
            self._trouble[message] = None
            _log.warning("%s", message)

    def close(self) -> Journal:
        """Forget the key and all digests, close the journal and return what was written."""
        self._hash = None
        self.parts.forget()
        self.reader.forget()
        self._tools.clear()
        self._regions.clear()
        self._measured.clear()
        if self._journal is not None:
            try:
                self._journal.close()
            except OSError as error:
                self.warn(f"the journal could not be closed ({type(error).__name__})")
        records, self._records = tuple(self._records), []
        return Journal(self._header, records)

    def _lose_journal(self, error: Exception) -> None:
        self._journal = None
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else type(error).__name__
        self.warn(f"the journal cannot be written ({reason}): the recording goes on in memory")
