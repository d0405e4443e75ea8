from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable

import pytest
import zstandard

from rotoscope.recorder import encodings
from rotoscope.recorder.encodings import Undecodable, decoded, decoder_of

TEXT = b"what was said " * 20_000


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(TEXT, ""), (TEXT, "identity"), (gzip.compress(TEXT), "gzip"), (zstandard.compress(TEXT), "zstd")],
    ids=("none", "identity", "gzip", "zstd"),
)
def test_a_body_is_taken_off_its_encoding(body: bytes, encoding: str) -> None:
    assert decoded(body, encoding) == TEXT


def test_a_stream_is_unpacked_as_it_comes() -> None:
    packed = gzip.compress(TEXT)
    decoder = decoder_of("gzip")

    assert decoder is not None
    assert b"".join(decoder.decompress(packed[i : i + 7]) for i in range(0, len(packed), 7)) == TEXT
    assert decoder.decompress(b"behind the end") == b""


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_body_may_be_packed_in_several(encoding: str, pack: Callable[[bytes], bytes], step: int) -> None:
    packed = pack(b"one ") + pack(b"two ") + pack(b"three")
    decoder = decoder_of(encoding)

    assert decoder is not None
    assert b"".join(decoder.decompress(packed[i : i + step]) for i in range(0, len(packed), step)) == b"one two three"
    assert decoder.is_at_end


def test_a_part_that_is_damaged_behind_a_whole_one_is_told() -> None:
    damaged = gzip.compress(b"one") + gzip.compress(TEXT)[:50] + b"damaged" * 9

    with pytest.raises(Undecodable):
        decoded(damaged, "gzip")


def test_little_that_unpacks_to_much_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    monkeypatch.setattr(encodings, "LARGEST_BODY_BYTES", 1 << 20)
    tracemalloc.start()

    with pytest.raises(Undecodable, match="more than is taken"):
        decoded(packed, "zstd")
    assert tracemalloc.get_traced_memory()[1] < 256 << 20
    tracemalloc.stop()


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
