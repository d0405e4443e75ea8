"""What an audit finds, told without telling it: a log of an audit must not become the leak that it looks for.

A finding names file, line and field and what was expected, never a value nor a name that is not one of ours. What may be
a public name, such as that of a tokenizer, is no finding but listed, because only a person can tell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

PUBLIC_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+=#-]{0,99}\Z")
"""Names that may be shown: of tokenizers, models and files."""
OUR_NAME = re.compile(
    r"(corpus|results|sessions|summary|server|timeline|gpus|(run|trace)-[0-9]{1,9})(\.trace|\.journal)?\.jsonl?\Z|(run|replay)-[0-9]{1,9}\Z"
)
"""Names of files and folders that Rotoscope gives by itself, which say nothing."""
MOST_FINDINGS = 1000
"""As many are kept; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing for which a file may not be shown to others as it is."""

    file: str
    line: int | None
    field: str
    """Path of the field within the line or file, empty where it is about the whole."""
    what: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(filter(None, (place, self.field, self.what)))


@dataclass(frozen=True, slots=True)
class Name:
    """A name that may be public or not."""

    kind: str
    """Of what it is: tokenizer, model, file."""
    value: str


@dataclass(slots=True)
class Findings:
    """Collects what is found in the files of an audit."""

    kept: list[Finding] = field(default_factory=list)
    total: int = 0
    names: Counter[Name] = field(default_factory=Counter)
    """With the number of files or places that have each."""

    def add(self, file: str, what: str, *, line: int | None = None, field: str = "") -> None:
        """Note a finding."""
        self.total += 1
        if self.total <= MOST_FINDINGS:
            self.kept.append(Finding(file, line, field, what))

    def see(self, kind: str, value: str, times: int = 1) -> None:
        """List a name that fits `PUBLIC_NAME`."""
        self.names[Name(kind, value)] += times

    def sorted_names(self) -> Iterator[tuple[Name, int]]:
        yield from sorted(self.names.items(), key=lambda item: (item[0].kind, item[0].value))


@dataclass(frozen=True, slots=True)
class FileFindings:
    """The findings of one file."""

    file: str
    """As it is shown."""
    all: Findings

    def add(self, what: str, *, line: int | None = None, field: str = "") -> None:
        self.all.add(self.file, what, line=line, field=field)

    def see(self, kind: str, value: str) -> None:
        self.all.see(kind, value)


def shown_step(name: str) -> str:
    """Return the name of a file or folder as it may be shown."""
    return name if PUBLIC_NAME.match(name) else f"<name of {len(name)} characters>"
