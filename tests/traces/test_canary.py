from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import struct
import uuid
import zipfile
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest

from rotoscope.traces.canary import Canaries, Hit
from rotoscope.traces.errors import UnusableInput

CANARY = 'canary-7f3a the quick Brown fox; ünd "mehr"'
OTHER = "second-canary-0be2d85a"


def canaries() -> Canaries:
    return Canaries.of([OTHER, CANARY], tokenizers={})


def forms_in(data: bytes) -> set[str]:
    hits = canaries().in_bytes(b"before " + data + b" after")
    assert all(hit.canary == 2 for hit in hits)
    return {hit.form for hit in hits}


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (CANARY.encode(), "plain"),
        (CANARY.lower().encode(), "lower case"),
        (CANARY.encode("utf-16-le"), "utf-16-le"),
        (CANARY.encode("utf-16"), "utf-16-le"),
        (CANARY[::-1].encode(), "reversed"),
        (CANARY.encode().hex().encode(), "hex"),
        (base64.b64encode(CANARY.encode()), "base64"),
        (base64.b64encode(b"1" + CANARY.encode() + b"2"), "base64"),
        (base64.urlsafe_b64encode(b"??" + CANARY.encode()), "base64"),
        (b"canary-7f3a%20the%20quick%20Brown%20fox%3b%20%c3%bcnd%20%22mehr%22", "in a URL"),
        (json.dumps(CANARY).encode(), "escaped for JSON"),
        (json.dumps(json.dumps(CANARY)).encode(), "escaped for JSON twice"),
        (repr(CANARY.encode()).encode(), "escaped for Python"),
        (hashlib.md5(CANARY.encode()).hexdigest().encode(), "md5 in hex"),
        (hashlib.sha256(CANARY.encode()).hexdigest()[:16].upper().encode(), "sha256 in hex"),
        (hashlib.sha512(CANARY.encode()).digest(), "sha512"),
        (base64.b64encode(hashlib.sha1(CANARY.encode()).digest()), "sha1 in base64"),
        (hashlib.blake2b(CANARY.encode(), digest_size=16).hexdigest().encode(), "blake2b-128 in hex"),
        (json.dumps(list(CANARY.encode())).encode(), "bytes"),
        (b"0x%08x" % zlib.crc32(CANARY.encode()), "crc32"),
        (CANARY.encode().hex(":").encode(), "hex"),
        ("".join(f"\\x{byte:02x}" for byte in CANARY.encode()).encode(), "hex"),
        (quote(quote(CANARY)).encode(), "in a URL twice"),
        (json.dumps(list(CANARY.encode()), indent=2).encode(), "bytes"),
        ("\t".join(map(str, CANARY.encode())).encode(), "bytes"),
        (json.dumps([float(byte) for byte in CANARY.encode()]).encode(), "bytes"),
        (struct.pack(f">{len(CANARY.encode())}I", *CANARY.encode()), "bytes"),
        (struct.pack(f"<{len(CANARY.encode())}d", *CANARY.encode()), "bytes"),
        (base64.b64encode(struct.pack(f"<{len(CANARY.encode())}I", *CANARY.encode())), "bytes in base64"),
        (b"file-" + hashlib.sha256(CANARY.encode()).hexdigest()[:8].encode(), "sha256, cut"),
        (hashlib.sha1(CANARY.encode()).hexdigest()[:12].encode(), "sha1, cut"),
        (hashlib.sha256(CANARY.encode() + b"\r\n").hexdigest().encode(), "sha256 of it and a line end in hex"),
        (hashlib.sha256(CANARY.encode()).digest().hex(":").encode(), "sha256 in hex"),
        (str(uuid.UUID(hashlib.md5(CANARY.encode()).hexdigest())).encode(), "md5 in hex"),
        (str(uuid.uuid5(uuid.NAMESPACE_URL, CANARY)).encode(), "uuid5"),
    ],
)
def test_a_canary_is_found_in_other_shapes(data: bytes, form: str) -> None:
    assert form in forms_in(data)


def test_nothing_is_found_where_no_canary_is() -> None:
    others = "\n".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(200)) + CANARY[:-1]

    assert canaries().in_text(others) == []


def test_token_ids_of_a_tokenizer_are_found_in_a_row() -> None:
    found = Canaries.of([OTHER], tokenizers={"toy": lambda text: [1000 + ord(char) for char in text]})
    ids = [7, *(1000 + ord(char) for char in OTHER), 8]

    assert {hit.form for hit in found.in_text(json.dumps({"prompt": ids}))} == {"token ids of toy"}


def test_a_tree_is_searched_with_its_names_and_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f"run {OTHER}.log").write_bytes(b"nothing")
    (tmp_path / "b.bin").write_bytes(os.urandom(1000) + CANARY.encode())
    (tmp_path / "c").symlink_to(f"/nowhere/{OTHER}")

    hits = canaries().in_tree(tmp_path)

    assert [(hit.offset, hit.canary) for hit in hits] == [(1000, 2), (9, 1), (None, 1)]
    assert not any(OTHER in str(hit) or CANARY in str(hit) for hit in hits)
    assert hits[2].where == str(tmp_path / "a" / "<name of 30 characters>")


def test_a_tree_without_canaries_is_clean(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")

    assert canaries().in_tree(tmp_path) == []


def test_packed_files_are_unpacked_within_each_other(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.gz", gzip.compress(b"x" * 99 + CANARY.encode()))
    path = tmp_path / "all.bin"
    path.write_bytes(gzip.compress(inner.getvalue()))

    hits = canaries().in_file(path, shown_as="all.bin")

    assert hits[0] == Hit("all.bin!unpacked!notes.gz!unpacked", 99, 2, "plain")


def test_a_damaged_archive_is_not_called_clean(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(os.urandom(5000))[:2000])

    with pytest.raises(UnusableInput, match="packed and damaged"):
        canaries().in_tree(tmp_path)


def test_what_cannot_be_unpacked_is_not_called_clean(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd and more")

    with pytest.raises(UnusableInput, match=r"a\.zst: is packed as zstd"):
        canaries().in_tree(tmp_path)


def test_a_text_too_short_to_tell_from_chance_is_refused() -> None:
    with pytest.raises(UnusableInput, match="canary 2 is too short"):
        Canaries.of(["long enough", "abc"], tokenizers={})


def test_canaries_are_read_one_a_line_and_keep_their_line_number(tmp_path: Path) -> None:
    path = tmp_path / "canaries.txt"
    path.write_text(f"\n{OTHER}\n\n{CANARY}\n")

    assert [hit.canary for hit in Canaries.read(path).in_text(CANARY)][:1] == [4]
