"""One run of an agent: what came for it, and from its recorder to its trace in a folder.

Whatever happens to the folder, the agent goes on: without a journal the recording is in memory, and a trace that cannot
be written to its folder goes to a temporary one.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import BinaryIO

from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.losses import Loss
from rotoscope.recorder.names import Names
from rotoscope.recorder.numbered_files import Numbers, Place, claim
from rotoscope.recorder.recorder import Recorder
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.model import Trace
from rotoscope.traces.writer import save

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Teller:
    """A process that tells of its agents."""

    batch: int = -1
    """The last one that came."""
    offset_s: float = inf
    """What its clock is behind the gateway's, at most."""


@dataclass(slots=True, eq=False)
class Run:
    """A recorder, and what came for it."""

    recorder: Recorder
    requests: int = 0
    """How many requests may have been calls."""
    calls: int = 0
    """How many of them the recorder took for calls."""
    answered: int = 0
    """How many calls the upstream began to answer with status 200."""
    failed: int = 0
    """How many calls the upstream did not answer to the end."""
    in_flight: int = 0
    """How many requests are open."""
    last_s: float = 0.0
    """When the last request came or ended, or something was told, on the gateway's clock."""
    tellers: dict[str, Teller] = field(default_factory=dict, repr=False)
    at_work: set[str] = field(default_factory=set, repr=False)
    """Fan-outs, and agents below agents, that were told to have begun and not to be over."""
    over: set[str] = field(default_factory=set, repr=False)
    """Those that were told to be over, whatever of them is told to begin later."""
    is_ending: bool = False
    """Whether it ends as soon as nothing of it is at work."""
    lost: Counter[Loss] = field(default_factory=Counter)
    """What those who tell of its agents say that they lost or did not end."""
    when_quiet: Callable[[], None] | None = field(default=None, repr=False)
    """Called once, when no request is open any more."""

    def began(self, at_s: float) -> None:
        """Count a request in."""
        self.requests += 1
        self.in_flight += 1
        self.last_s = at_s

    def ended(self, at_s: float) -> None:
        """Count a request out."""
        self.in_flight -= 1
        self.last_s = at_s
        if not self.in_flight and self.when_quiet is not None:
            told, self.when_quiet = self.when_quiet, None
            told()


@dataclass(slots=True, eq=False)
class RecordedRun(Run):
    """A run whose trace is written to a folder at its end."""

    folder: Path = field(kw_only=True)
    place: Place | None = field(kw_only=True)
    """None where nothing could be claimed in the folder."""
    journal: BinaryIO = field(kw_only=True, repr=False)
    names: Names | None = field(kw_only=True, default=None, repr=False)
    """Where names are asked for."""
    called: str = field(kw_only=True, default="", repr=False)
    """How its clients call it: the name or session that holds its requests together."""

    @property
    def name(self) -> str:
        """What the run is called in answers of the gateway: its number in the folder."""
        return self.place.trace.name.partition(".")[0] if self.place else ""

    def finish(self) -> Finished:
        """End the recording, write the trace, then remove the journal. Never raises."""
        try:
            return self._finish()
        except Exception as error:  # noqa: BLE001 - whatever fails here, the agent must not be hurt
            return Finished(self, None, None, self._no_trace(type(error).__name__))
        finally:
            with contextlib.suppress(OSError):
                self.journal.close()
            give_back_memory()

    def _finish(self) -> Finished:
        trace = self.recorder.close()
        if trace is not None:
            return self._written(trace)
        if self.answered:
            return Finished(self, None, None, self._no_trace("it could not be made"))
        self._remove_journal()
        return Finished(self, None, None, "")

    def _written(self, trace: Trace) -> Finished:
        try:
            target = self._target()
            save(trace, target)
        except (OSError, UnusableInput) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return self._written_elsewhere(trace, reason or type(error).__name__)
        self._remove_journal()
        return Finished(self, trace, target, "")

    def _target(self) -> Path:
        """Return the file of the trace; under a new number where somebody removed the journal that held the old one."""
        if self.place is None or not self.place.is_of(self.journal):
            self.place = claim(self.folder)
            self.journal.close()
            self.journal = self.place.open_journal()
        return self.place.trace

    def _written_elsewhere(self, trace: Trace, reason: str) -> Finished:
        try:
            target = Path(tempfile.mkdtemp(prefix="rotoscope-")) / "run.trace.json"
        except OSError:
            return Finished(self, None, None, self._no_trace(reason))
        try:
            save(trace, target)
        except OSError:
            with contextlib.suppress(OSError):
                target.parent.rmdir()
            return Finished(self, None, None, self._no_trace(reason))
        self._remove_journal()
        return Finished(self, trace, target, f"the trace is not in its folder: {reason}")

    def _remove_journal(self) -> None:
        if self.place is not None and self.place.is_of(self.journal):
            self.place.give_up()

    def _no_trace(self, reason: str) -> str:
        is_kept = self.place is not None and self.place.is_of(self.journal) and os.fstat(self.journal.fileno()).st_size
        hint = f"; 'rotoscope recover {self.place.journal}' tries again" if self.place and is_kept else ""
        return f"RECORDING FAILED: there is no trace: {reason}{hint}"


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a run."""

    run: Run
    trace: Trace | None
    path: Path | None
    """Where the trace is; None where no call was recorded, or it could not be written."""
    trouble: str
    """Why it is not where it should be, empty when all is well."""


def give_back_memory() -> None:
    """Return to the system what the C library keeps of freed memory, where it can: a trace takes much for a moment."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def begin(
    place: Place, campaign: Campaign | None, *, tokenizer: str | None = None, keeps_names: bool = False
) -> RecordedRun:
    """Begin a run at a place that was claimed for it; `tokenizer` counts its texts. Raises UnusableInput."""
    try:
        journal = place.open_journal()
    except OSError as error:
        raise UnusableInput(f"{place.journal}: cannot be written: {error.strerror}") from error
    recorder, names = _recorder(journal, campaign, tokenizer=tokenizer, keeps_names=keeps_names)
    return RecordedRun(recorder, folder=place.journal.parent, place=place, journal=journal, names=names)


def begin_in(
    folder: Path,
    campaign: Campaign | None,
    *,
    tokenizer: str | None = None,
    keeps_names: bool = False,
    numbers: Numbers | None = None,
) -> RecordedRun:
    """Begin a run under the next free number of a folder; in memory alone where that cannot be. Never raises."""
    try:
        place = claim(folder) if numbers is None else numbers.claim()
        return begin(place, campaign, tokenizer=tokenizer, keeps_names=keeps_names)
    except UnusableInput as error:
        _log.warning("%s: the recording goes on in memory", error)
    journal = open(os.devnull, "wb", buffering=0)  # noqa: SIM115 - the run closes it
    recorder, names = _recorder(journal, campaign, tokenizer=tokenizer, keeps_names=keeps_names)
    return RecordedRun(recorder, folder=folder, place=None, journal=journal, names=names)


def _recorder(
    journal: BinaryIO, campaign: Campaign | None, *, tokenizer: str | None, keeps_names: bool
) -> tuple[Recorder, Names | None]:
    writer, names = JournalWriter(journal), Names() if keeps_names else None
    if campaign is None:
        return Recorder(writer, tokenizer=tokenizer, names=names), names
    shared = campaign.domain_of
    recorder = Recorder(
        writer, key=campaign.key, campaign=campaign.id, tokenizer=tokenizer, domain_of=shared, names=names
    )
    return recorder, names
