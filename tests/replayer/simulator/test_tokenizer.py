from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.simulator.tokenizer import (
    CONTROLS,
    END,
    FIRST_BYTE,
    control_id,
    decode,
    encode,
    token_bytes,
    vocabulary_size,
    word_ids,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text("aZ 09\n\t.,(=é日", max_size=40)


@given(TEXTS)
def test_decoding_gives_the_text_back(text: str) -> None:
    assert decode(encode(text)) == text


@given(TEXTS, st.sampled_from(CONTROLS), TEXTS)
def test_nothing_merges_across_a_control_token(before: str, control: str, after: str) -> None:
    whole = encode(before + control + after).tolist()

    assert whole == [*encode(before), control_id(control), *encode(after)]


@given(st.lists(st.sampled_from(word_ids()), max_size=50))
def test_words_survive_text(words: list[int]) -> None:
    assert encode(decode(words)).tolist() == words


def test_every_id_but_the_reserved_ones_has_a_spelling_of_its_own() -> None:
    spellings = [token_bytes(token) for token in range(vocabulary_size())]

    assert spellings[len(CONTROLS) : FIRST_BYTE] == [b""] * (FIRST_BYTE - len(CONTROLS))
    pieces = spellings[FIRST_BYTE + 256 :]
    assert len(set(pieces)) == len(pieces)


def test_control_tokens_come_first_and_are_one_token_each() -> None:
    assert [encode(control).tolist() for control in CONTROLS] == [[number] for number in range(len(CONTROLS))]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The answer", ["The", " ans", "wer"]),
        ("def f(x):\n    return", ["def", " f", "(", "x", "):", "\n    ", "ret", "urn"]),
        ("in 2026,", ["in", " 202", "6", ","]),
        ("a  b", ["a", "  ", "b"]),
        ("snake_case", ["sna", "ke", "_", "cas", "e"]),
    ],
)
def test_text_is_cut_greedily(text: str, pieces: list[str]) -> None:
    assert [token_bytes(token).decode() for token in encode(text)] == pieces


def test_what_no_piece_covers_becomes_bytes() -> None:
    assert encode("é").tolist() == [FIRST_BYTE + 0xC3, FIRST_BYTE + 0xA9]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert decode([FIRST_BYTE + 0xFF]) == "\ufffd"


def test_a_remembered_text_cannot_be_changed() -> None:
    ids = encode("remember me")
    ids[:] = 0

    assert encode("remember me").tolist() != [0] * len(ids)


def test_ids_are_32_bit_whatever_the_text() -> None:
    assert {encode(text).dtype for text in ("", "a", END, f"a{END}é")} == {np.dtype(np.uint32)}
