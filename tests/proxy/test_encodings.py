from __future__ import annotations

import gzip

import pytest
import zstandard

from rotoscope.proxy import encodings
from rotoscope.proxy.encodings import Undecodable, decoded, decoder_of

TEXT = b"what was said " * 20_000


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(TEXT, ""), (TEXT, "identity"), (gzip.compress(TEXT), "gzip"), (zstandard.compress(TEXT), "zstd")],
)
def test_a_body_is_taken_off_its_encoding(body: bytes, encoding: str) -> None:
    assert decoded(body, encoding) == TEXT


def test_a_stream_is_unpacked_as_it_comes() -> None:
    packed = gzip.compress(TEXT)
    decoder = decoder_of("gzip")

    assert decoder is not None
    assert b"".join(decoder.decompress(packed[i : i + 7]) for i in range(0, len(packed), 7)) == TEXT
    assert decoder.decompress(b"behind the end") == b""


def test_a_body_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "LARGEST_BODY_BYTES", 1000)

    with pytest.raises(Undecodable, match="more than is taken"):
        decoded(gzip.compress(TEXT), "gzip")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "secret"])
def test_other_encodings_are_refused_and_not_repeated(encoding: str) -> None:
    assert decoder_of(encoding) is None
    with pytest.raises(Undecodable) as refused:
        decoded(TEXT, encoding)

    assert encoding not in str(refused.value)
