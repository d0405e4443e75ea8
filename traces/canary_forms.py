"""The shapes in which a text may lie in a file although nobody wrote it there as it is.

Each form is a run of bytes to look for: the text in other encodings and cases, escaped, in hex or base64 at any alignment,
reversed, as a list of numbers, as token ids, and as the beginning of its digests by the usual functions. Digests under a
key cannot be found without the key, and neither can what was encrypted or packed.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from unicodedata import normalize
from urllib.parse import quote, quote_plus

Encode: TypeAlias = Callable[[str], Sequence[int]]
"""A tokenizer: from text to token ids, without special ones."""

SHORTEST_TEXT_BYTES = 4
"""A shorter text occurs by chance."""
SHORTEST_FORM_BYTES = 8
"""A shorter run of bytes that is not the text itself occurs by chance."""
DIGEST_BYTES = 8
"""How much of a digest is looked for: people cut them to 16 hex digits."""
_SHORTEST_RUN = 4
"""Fewer numbers in a row occur by chance."""
_SHORTEST_WRITTEN_RUN = 12
_LONGEST_RUN = 64
"""So many numbers are enough, and a long text would make a long search."""

_DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    name: lambda data, name=name: hashlib.new(name, data, usedforsecurity=False).digest()  # type: ignore[misc]
    for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "sha3_512")
}
_DIGESTS |= {
    f"blake2b-{8 * size}": lambda data, size=size: hashlib.blake2b(data, digest_size=size).digest()  # type: ignore[misc]
    for size in (8, 16, 32, 64)
}
_DIGESTS |= {
    f"blake2s-{8 * size}": lambda data, size=size: hashlib.blake2s(data, digest_size=size).digest()  # type: ignore[misc]
    for size in (8, 16, 32)
}


@dataclass(frozen=True, slots=True)
class Form:
    """One shape of a text: what it is called and the bytes to look for."""

    name: str
    pattern: bytes
    stands_alone: bool = False
    """Whether it counts only where no letter or digit touches it, because it is short."""


def forms(text: str, tokenizers: Mapping[str, Encode]) -> Iterator[Form]:
    """Yield the forms of a text, the plain one first; some may be equal."""
    yield from _plain(text)
    for form in _derived(text, tokenizers):
        if len(form.pattern) >= SHORTEST_FORM_BYTES:
            yield form


def _plain(text: str) -> Iterator[Form]:
    yield Form("plain", text.encode())
    yield Form("lower case", text.lower().encode())
    yield Form("upper case", text.upper().encode())


def _derived(text: str, tokenizers: Mapping[str, Encode]) -> Iterator[Form]:
    yield from _encoded(text)
    yield from _escaped(text)
    for name in ("utf-8", "utf-16-le"):
        yield from _in_digits(name, text.encode(name))
    yield from _numbers("bytes", list(text.encode()))
    yield from _numbers("code points", [ord(char) for char in text])
    for name, encode in tokenizers.items():
        for start in ("", " "):
            yield from _tokens(name, encode(start + text))
    for said, data in _hashed(text):
        yield from _digests(said, data)
    yield from _uuids(text)


def _encoded(text: str) -> Iterator[Form]:
    for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        yield Form(name, text.encode(name))
    for normal in ("NFC", "NFD", "NFKC"):
        yield Form(f"normal form {normal}", normalize(normal, text).encode())
    yield Form("reversed", text[::-1].encode())
    for between in (" ", "-", "_", ""):
        joined = between.join(text.split())
        yield Form(f"joined by {between!r}", joined.encode())
        yield Form(f"joined by {between!r}", joined.lower().encode())


def _escaped(text: str) -> Iterator[Form]:
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield Form("escaped for JSON", once.encode())
        yield Form("escaped for JSON twice", json.dumps(once, ensure_ascii=ascii_only)[1:-1].encode())
    units = text.encode("utf-16-be")
    codes = [units[place : place + 2].hex() for place in range(0, len(units), 2)]
    yield Form("escaped for JSON", "".join(f"\\u{code}" for code in codes).encode())
    yield Form("escaped for JSON", "".join(f"\\u{code.upper()}" for code in codes).encode())
    yield Form("escaped for Python", text.encode("unicode_escape"))
    yield Form("escaped for Python", repr(text.encode())[2:-1].encode())
    yield Form("escaped for HTML", html.escape(text).encode())
    for quoted in (quote(text), quote(text, safe=""), quote_plus(text), _all_quoted(text)):
        for written in (quoted, _with_lower_hex(quoted)):
            yield Form("in a URL", written.encode())
            yield Form("in a URL twice", written.replace("%", "%25").encode())


def _all_quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _with_lower_hex(quoted: str) -> str:
    first, *rest = quoted.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _in_digits(encoding: str, data: bytes) -> Iterator[Form]:
    of = "" if encoding == "utf-8" else f" of {encoding}"
    yield Form(f"hex{of}", data.hex().encode())
    yield Form(f"hex{of}", data.hex().upper().encode())
    for separator in _BETWEEN_BYTES:
        written = separator.join(f"{byte:02x}" for byte in data)
        yield Form(f"hex{of}", written.encode())
        yield Form(f"hex{of}", separator.join(f"{byte:02X}" for byte in data).encode())
    for before in range(3):
        inside = _base64_inside(data, before)
        yield Form(f"base64{of}", inside)
        yield Form(f"base64{of}", inside.translate(_URL_SAFE))


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_BETWEEN_BYTES = (" ", ":", "\\x", ", 0x", ",0x")


def _base64_inside(data: bytes, before: int) -> bytes:
    """Return the digits that data has in base64 whatever stands around it, with `before` bytes more than threes before it."""
    first = -(-8 * before // 6)
    last = 8 * (before + len(data)) // 6
    return base64.b64encode(bytes(before) + data)[first:last]


def _tokens(tokenizer: str, ids: Sequence[int]) -> Iterator[Form]:
    """The first and the last token may be others within a longer text."""
    inner = ids[1:-1] if len(ids) >= _SHORTEST_RUN + 2 else ids
    yield from _numbers(f"token ids of {tokenizer}", inner)


def _numbers(name: str, numbers: Sequence[int]) -> Iterator[Form]:
    run = numbers[:_LONGEST_RUN]
    if len(run) < _SHORTEST_RUN:
        return
    for separator in _BETWEEN_NUMBERS:
        written = separator.join(map(str, run)).encode()
        if len(written) >= _SHORTEST_WRITTEN_RUN:
            yield Form(name, written)
    for size in (2, 4, 8):
        if max(run) < 256**size:
            for order in _ORDERS:
                packed = b"".join(number.to_bytes(size, order) for number in run)
                yield Form(name, packed)
                yield from (Form(f"{name} in base64", _base64_inside(packed, before)) for before in range(3))
    for code in "<f", "<d":
        yield Form(name, b"".join(struct.pack(code, number) for number in run))


_BETWEEN_NUMBERS = (",", ", ", " ", "\n", "\t", ";", "; ", ".0,", ".0, ", ",\n ", ",\n  ", ",\n    ", ",\n\t")
"""Those of lists on one line, of columns, and of JSON that is indented."""


def _hashed(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield what people hash when they hash a text."""
    yield "", text.encode()
    yield " of it and a line end", text.encode() + b"\n"
    yield " of it and a line end", text.encode() + b"\r\n"
    yield " of it in lower case", text.lower().encode()
    yield " of it without white space around", text.strip().encode()
    yield " of its JSON", json.dumps(text).encode()
    yield " of its utf-16-le", text.encode("utf-16-le")


def _digests(said: str, data: bytes) -> Iterator[Form]:
    for name, function in _DIGESTS.items():
        digest = function(data)
        yield from _digest_forms(f"{name}{said}", digest)
        if name in _CUT:
            for written in (digest.hex(), digest.hex().upper()):
                yield Form(f"{name}{said}, cut", written[:12].encode())
                yield Form(f"{name}{said}, cut", written[:10].encode(), stands_alone=True)
                yield Form(f"{name}{said}, cut", written[:8].encode(), stands_alone=True)
    crc = zlib.crc32(data)
    for written in (f"{crc:08x}", f"{crc:08X}", f"{crc:#010x}", str(crc)):
        yield Form(f"crc32{said}", written.encode(), stands_alone=True)


_CUT = ("md5", "sha1", "sha256")
"""People cut those to 12 or 8 hex digits where a short name is wanted."""


def _uuids(text: str) -> Iterator[Form]:
    """Yield the identifiers that are made from a name."""
    for space in (uuid.NAMESPACE_DNS, uuid.NAMESPACE_URL, uuid.NAMESPACE_OID, uuid.NAMESPACE_X500):
        for version, made in ((3, uuid.uuid3(space, text)), (5, uuid.uuid5(space, text))):
            for written in (str(made), made.hex):
                yield Form(f"uuid{version}", written.encode())
                yield Form(f"uuid{version}", written.upper().encode())
            yield Form(f"uuid{version}", made.bytes)


def _digest_forms(name: str, digest: bytes) -> Iterator[Form]:
    start = digest[:DIGEST_BYTES]
    yield Form(name, start)
    yield Form(f"{name} in hex", start.hex().encode())
    yield Form(f"{name} in hex", start.hex().upper().encode())
    yield Form(f"{name} in hex", start.hex(":").encode())
    yield Form(f"{name} in hex", f"{start[:4].hex()}-{start[4:6].hex()}-".encode())
    inside = _base64_inside(start, 0)
    yield Form(f"{name} in base64", inside)
    yield Form(f"{name} in base64", inside.translate(_URL_SAFE))
    for order in _ORDERS:
        for is_signed in (False, True):
            number = int.from_bytes(start, order, signed=is_signed)
            yield Form(f"{name} as a number", str(abs(number)).encode(), stands_alone=True)


_ORDERS: tuple[Literal["big", "little"], ...] = ("big", "little")


def different(found: Iterable[Form]) -> Iterator[Form]:
    """Yield each run of bytes once, under its first name."""
    seen: set[bytes] = set()
    for form in found:
        if form.pattern not in seen:
            seen.add(form.pattern)
            yield form
