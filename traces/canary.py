"""Find canaries: texts that must be in no file, in whatever shape they may have got there.

A canary is a text that is put where an agent's content goes, and then looked for in everything that was written. Tests
use it so:

    canaries = Canaries.of(["canary-7f3a91c4 in a prompt", "canary-0be2d85a in a header"])
    assert canaries.in_tree(tmp_path) == []            # every file below, its name, what is packed in it
    assert canaries.in_text(caplog.text) == []         # what was logged
    assert canaries.in_bytes(captured, where="stderr") == []

What is looked for is said in `canary_forms`. A hit tells the number of the canary, from 1 in the order given, and its form,
never the text. A text that was cut is not found: take short ones that nobody would write, of 12 to 40 characters.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rotoscope.traces.byte_search import ByteSearch, Pattern
from rotoscope.traces.canary_forms import SHORTEST_TEXT_BYTES, Encode, different, forms
from rotoscope.traces.canary_tokens import offline_encodings
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.packed_files import CHUNK_BYTES, DEEPEST, members, pieces_of, unpacking


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a canary is."""

    where: str
    """The file, with `!` and the member where it is packed in another; a name that holds a canary is not shown."""
    offset: int | None
    """Byte in the file or member, None where the name itself holds it."""
    canary: int
    """Number of the canary, from 1, in the order given."""
    form: str
    """In which shape it is there."""

    def __str__(self) -> str:
        place = "in its name" if self.offset is None else f"at byte {self.offset}"
        return f"{self.where}: {place}: canary {self.canary}, {self.form}"


class Canaries:
    """Texts that must not be found."""

    def __init__(self, texts: Iterable[tuple[int, str]], tokenizers: Mapping[str, Encode]) -> None:
        """Prepare the search for texts with their numbers; use `of` or `read`."""
        known: dict[bytes, tuple[int, str, bool]] = {}
        for number, text in texts:
            if len(text.encode()) < SHORTEST_TEXT_BYTES:
                raise UnusableInput(f"canary {number} is too short: expected at least {SHORTEST_TEXT_BYTES} bytes")
            for form in different(forms(text, tokenizers)):
                known.setdefault(form.pattern, (number, form.name, form.stands_alone))
        self._meanings = [(number, name) for number, name, _ in known.values()]
        self._search = ByteSearch(Pattern(data, stands_alone) for data, (_, _, stands_alone) in known.items())

    @classmethod
    def of(cls, texts: Iterable[str], *, tokenizers: Mapping[str, Encode] | None = None) -> Canaries:
        """Prepare the search for these texts.

        `tokenizers` are those whose token ids are looked for, by name; None takes tiktoken's encodings that are on this
        machine. Raises UnusableInput where a text is too short to be told from chance.
        """
        return cls(enumerate(texts, start=1), offline_encodings() if tokenizers is None else tokenizers)

    @classmethod
    def read(cls, path: Path) -> Canaries:
        """Read a file with a canary a line; its number is that of its line, empty lines are passed over."""
        try:
            lines = path.read_bytes().decode("utf-8-sig").splitlines()
        except OSError as error:
            raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UnusableInput(f"{path}: expected canaries in UTF-8, one a line") from error
        texts = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not texts:
            raise UnusableInput(f"{path}: expected canaries, one a line, found none")
        return cls(texts, offline_encodings())

    def in_bytes(self, data: bytes, *, where: str = "bytes") -> list[Hit]:
        """Return where canaries are in data, the first place of each form."""
        return list(self._in_pieces([data], where))

    def in_text(self, text: str, *, where: str = "text") -> list[Hit]:
        """Return where canaries are in a text; offsets are those of its UTF-8 bytes."""
        return self.in_bytes(text.encode("utf-8", "surrogatepass"), where=where)

    def in_file(self, path: Path, *, shown_as: str | None = None) -> list[Hit]:
        """Return where canaries are in a file and in what is packed in it.

        Raises UnusableInput where it cannot be read or unpacked, because nobody could say then that they are not there.
        """
        where = str(path) if shown_as is None else shown_as
        try:
            with path.open("rb") as file, unpacking(where):
                return list(self._in_stream(file, where))
        except OSError as error:
            raise UnusableInput(f"{where}: cannot be read: {error.strerror}") from error

    def in_tree(self, folder: Path) -> list[Hit]:
        """Return where canaries are in all files below a folder and in the names there.

        A link is not followed, but where it points to is looked at like a name. Raises UnusableInput like `in_file`.
        """
        hits: list[Hit] = []
        for path in _all_below(folder):
            shown = self.shown_name(path.relative_to(folder), folder)
            hits += self.in_name(path.name, shown)
            if path.is_symlink():
                hits += self.in_bytes(os.fsencode(os.readlink(path)), where=f"{shown}, where it points to")
            elif stat.S_ISREG(path.lstat().st_mode):
                hits += self.in_file(path, shown_as=shown)
        return hits

    def in_name(self, name: str, shown_as: str) -> list[Hit]:
        """Return the canaries in the name of a file or folder."""
        hits = self.in_bytes(os.fsencode(name))
        return [Hit(shown_as, None, hit.canary, hit.form) for hit in hits]

    def shown_name(self, path: Path, folder: Path | None = None) -> str:
        """Return a path for people, without the names in it that hold a canary."""
        steps = [f"<name of {len(step)} characters>" if self.in_name(step, "") else step for step in path.parts]
        return str(Path(*([folder] if folder else []), *steps))

    def _in_stream(self, stream: IO[bytes], where: str, depth: int = 0) -> Iterator[Hit]:
        """Search a seekable file and what is packed in it."""
        if depth > DEEPEST:
            raise UnusableInput(f"{where}: is packed more than {DEEPEST} times")
        yield from self._in_pieces(pieces_of(stream), where)
        for name, member in members(stream):
            shown = f"{where}!{self.shown_name(Path(name))}"
            yield from self.in_name(name, shown)
            yield from self._in_stream(member, shown, depth + 1)

    def _in_pieces(self, pieces: Iterable[bytes], where: str) -> Iterator[Hit]:
        seen: set[int] = set()
        for offset, index in self._search.find(_chunks(pieces)):
            if index not in seen:
                seen.add(index)
                yield Hit(where, offset, *self._meanings[index])


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut what is longer than a chunk, so that memory stays bounded."""
    for piece in pieces:
        for start in range(0, len(piece), CHUNK_BYTES):
            yield piece[start : start + CHUNK_BYTES]


def _all_below(folder: Path) -> Iterator[Path]:
    """Yield folders, files and links below a folder, in sorted order."""
    for parent, folders, files in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted([*folders, *files]):
            yield Path(parent, name)


def _raise(error: OSError) -> None:
    raise UnusableInput(f"{error.filename}: cannot be read: {error.strerror}") from error
