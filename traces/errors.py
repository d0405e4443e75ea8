"""Every error that Rotoscope raises on purpose.

RotoscopeError
├── UnusableInput       a file or an argument cannot be used; exit code 2
│   └── TraceError      a trace breaks the format or the trace model; names file, event and field
└── RunFailed           the work itself failed; exit code 1
"""

from __future__ import annotations


class RotoscopeError(Exception):
    """Root of the errors a caller may catch; its text is one line for people."""

    exit_code = 1


class UnusableInput(RotoscopeError):
    """Say that a file or an argument cannot be used, and what is expected instead."""

    exit_code = 2


class TraceError(UnusableInput):
    """Say where a trace breaks its format: file, line, event, field, expectation."""

    def __init__(
        self, message: str, *, path: str = "", line: int | None = None, event: int | None = None, field: str = ""
    ) -> None:
        where = path or "trace"
        if line is not None:
            where += f":{line}"
        if event is not None:
            where += f": event {event}"
        if field:
            where += f": {field}"
        super().__init__(f"{where}: {message}")
        self.message = message
        self.path = path
        self.line = line
        self.event = event
        self.field = field

    def at(self, path: str, *, line: int | None = None) -> TraceError:
        """Return the same error with the name of the file it was found in, and the line where that is known."""
        line = self.line if line is None else line
        return type(self)(self.message, path=path, line=line, event=self.event, field=self.field)


class RunFailed(RotoscopeError):
    """Say that a recording, a replay or a server failed."""
