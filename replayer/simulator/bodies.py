"""The bytes of a request's body, with their content codings undone: gzip and deflate are known."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from aiohttp import web

from rotoscope.replayer.simulator.wire import Refusal

_GZIP = 16 + zlib.MAX_WBITS


async def read_body(request: web.Request) -> bytes:
    """Return the body of a request; refuse codings that are not known, and bodies that are not what they say."""
    body = await request.read()
    codings = [coding.strip().lower() for coding in request.headers.get("content-encoding", "").split(",")]
    for coding in reversed([coding for coding in codings if coding not in ("", "identity")]):
        if coding not in _DECODERS:
            known = ", ".join(_DECODERS)
            raise Refusal(f"the body's content-encoding is not known here: send one of {known}, or none", status=415)
        try:
            body = _DECODERS[coding](body, request.client_max_size)
        except (zlib.error, EOFError):
            raise Refusal(f"the body is not whole {coding}, as its content-encoding says") from None
    return body


def _gunzip(data: bytes, most: int) -> bytes:
    """Return the text of all members of a gzip file."""
    text, data = _inflate(data, most, _GZIP)
    while data.strip(b"\0"):
        more, data = _inflate(data, most - len(text), _GZIP)
        text += more
    return text


def _undeflate(data: bytes, most: int) -> bytes:
    """Return the text of a zlib stream, or of one without its header, as some clients send it."""
    is_zlib = data[:1] and data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
    text, rest = _inflate(data, most, zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
    if rest:
        raise zlib.error("more behind the end")
    return text


def _inflate(data: bytes, most: int, window_bits: int) -> tuple[bytes, bytes]:
    """Return a text and what stands behind its end; raise EOFError where it is cut off."""
    decoder = zlib.decompressobj(window_bits)
    text = decoder.decompress(data, most + 1)
    if len(text) > most:
        raise Refusal(f"the body has more than {most} bytes", status=413)
    if not decoder.eof:
        raise EOFError
    return text, decoder.unused_data


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {"gzip": _gunzip, "x-gzip": _gunzip, "deflate": _undeflate}
