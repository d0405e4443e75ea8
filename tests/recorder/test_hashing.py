from __future__ import annotations

import pytest

from rotoscope.recorder.hashing import DIGEST_BYTES, KEY_BYTES, KeyedHash, new_key, own_digest
from rotoscope.traces.journal import SHORT_DIGEST_BYTES

KEY = b"k" * KEY_BYTES


def test_one_key_gives_one_digest_and_another_key_another() -> None:
    assert KeyedHash(KEY).digest(b"a") == KeyedHash(KEY).digest(b"a")
    assert KeyedHash(KEY).digest(b"a") != KeyedHash(b"l" * KEY_BYTES).digest(b"a")
    assert len(KeyedHash(KEY).digest(b"a")) == DIGEST_BYTES


def chained(*parts: bytes) -> bytes:
    keyed, digest = KeyedHash(KEY), b""
    for part in parts:
        digest = keyed.chained_own(digest, own_digest(part))
    return digest


def test_a_chained_digest_depends_on_all_that_is_before() -> None:
    assert chained(b"a", b"b") != chained(b"b")
    assert chained(b"a", b"b") != chained(b"c", b"b")


def test_where_one_part_ends_and_the_next_begins_matters() -> None:
    assert chained(b"ab", b"c") != chained(b"a", b"bc")


def test_borders_are_equal_up_to_where_texts_part() -> None:
    keyed = KeyedHash(KEY)
    one, other = keyed.borders(b"aaabbb", [2, 4, 6]), keyed.borders(b"aaaccc", [2, 4, 6])

    assert [a == b for a, b in zip(one, other, strict=True)] == [True, False, False]
    assert {len(digest) for digest in one} == {SHORT_DIGEST_BYTES}


def test_keys_are_drawn_anew() -> None:
    assert new_key() != new_key()
    assert len(new_key()) == KEY_BYTES


@pytest.mark.parametrize("size", [0, 15, 65])
def test_a_key_of_no_use_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        KeyedHash(b"k" * size)
