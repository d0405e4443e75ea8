"""Which header lines pass the gateway: all but those that are about one connection (RFC 9110, 7.6.1)."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from multidict import CIMultiDict

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
OF_THE_GATEWAY = frozenset({b"host", b"expect"})
"""The gateway is the one who is asked and who answers `100 Continue`."""
TO_THE_GATEWAY = b"x-rotoscope-"
"""What names of lines begin with that a client sends to the gateway alone."""


def end_to_end(
    raw: Iterable[tuple[bytes, bytes]],
    *,
    without: AbstractSet[bytes] = frozenset(),
    without_prefix: bytes | tuple[()] = (),
) -> CIMultiDict[str]:
    """Return the header lines that pass, in their order, spelling and number.

    `without` names further ones to leave out, `without_prefix` what their names begin with, in lower case.
    """
    dropped = HOP_BY_HOP | without
    listed = b""
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in raw:
        lower = name.lower()
        if lower.startswith(without_prefix):
            continue
        if lower not in dropped:
            kept.add(_text(name), _text(value))
        elif lower == b"connection":
            listed += b"," + value
    for option in listed.split(b","):
        kept.popall(_text(option.strip()), None)
    return kept


def in_one_spelling(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """Return the lines with repeated names spelled as they were first.

    aiohttp's client takes two spellings of a name for two names, and loses a line.
    """
    spelling: dict[str, str] = {}
    return CIMultiDict([(spelling.setdefault(name.lower(), name), value) for name, value in headers.items()])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")
