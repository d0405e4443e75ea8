"""The rules of a journal that one record alone cannot break: parts and calls are numbered, and named after they began.

Types and limits of single fields are checked while a line is read (`journal_files.py`); this is what remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rotoscope.traces.errors import TraceError
from rotoscope.traces.journal import (
    SHORT_DIGEST_BYTES,
    CallEnded,
    CallMeasured,
    CallOpened,
    JournalHeader,
    JournalRecord,
    OutputMeasured,
    PartCounted,
    PartSeen,
)


@dataclass(slots=True)
class JournalRules:
    """Take the records of one journal in order."""

    header: JournalHeader
    parts: int = 0
    opened: int = 0
    ended: set[int] = field(default_factory=set)
    measured: dict[int, int] = field(default_factory=dict)
    """Length of each measured prompt."""
    counted: set[int] = field(default_factory=set)

    def check(self, record: JournalRecord, *, where: str) -> None:
        """Raise a TraceError when a record does not follow from those before it."""
        match record:
            case PartSeen():
                _expect(record.part == self.parts, f"expected part {self.parts}, found {record.part}", where, "part")
                self._expect_part(record.parent, where, "parent")
                borders = len(record.border_ends())
                is_right = len(record.borders) == 2 * SHORT_DIGEST_BYTES * borders
                _expect(is_right, f"expected digests of {borders} borders", where, "borders")
                self.parts += 1
            case CallOpened():
                _expect(record.call == self.opened, f"expected call {self.opened}, found {record.call}", where, "call")
                self._expect_part(record.head, where, "head")
                self._expect_earlier(record.previous, where, "previous")
                self._expect_earlier(record.answers, where, "answers")
                self.opened += 1
            case CallEnded():
                self._expect_call(record.call, where)
                self._expect_part(record.answer, where, "answer")
                _expect(record.call not in self.ended, f"call {record.call} has ended before", where, "call")
                self.ended.add(record.call)
            case CallMeasured():
                self._expect_call(record.call, where)
                self._check_measured(record, where)
            case OutputMeasured():
                prompt = self.measured.get(record.call)
                _expect(prompt is not None, "expected a call that was measured before", where, "call")
                _expect(record.stream_tokens >= (prompt or 0), "expected more than its prompt", where, "stream_tokens")
                self.measured[record.call] = record.stream_tokens
            case PartCounted():
                self._check_counted(record, where)

    def _check_measured(self, record: CallMeasured, where: str) -> None:
        _expect(record.call not in self.measured, f"call {record.call} was measured before", where, "call")
        if record.of is None:
            _expect(record.tokens == 0, "expected 0 tokens in common with nothing", where, "tokens")
        else:
            _expect(record.of in self.measured, "expected a call that was measured before", where, "of")
            limit = min(record.prompt_tokens, self.measured[record.of])
            _expect(0 < record.tokens <= limit, f"expected 1 to {limit}, the length of both prompts", where, "tokens")
        self.measured[record.call] = record.prompt_tokens

    def _check_counted(self, record: PartCounted, where: str) -> None:
        _expect(self.header.tokenizer is not None, "expected a tokenizer in the header", where, "record")
        self._expect_part(record.part, where, "part")
        _expect(record.part not in self.counted, f"part {record.part} was counted before", where, "part")
        self.counted.add(record.part)

    def _expect_part(self, part: int | None, where: str, field: str) -> None:
        _expect(part is None or part < self.parts, f"expected a part that was seen, found {part}", where, field)

    def _expect_earlier(self, call: int | None, where: str, field: str) -> None:
        _expect(call is None or call < self.opened, f"expected an earlier call, found {call}", where, field)

    def _expect_call(self, call: int, where: str) -> None:
        _expect(call < self.opened, f"expected a call that was opened, found {call}", where, "call")


def _expect(is_right: bool, message: str, where: str, field: str) -> None:
    if not is_right:
        raise TraceError(message, path=where, field=field)
