from __future__ import annotations

import base64
import json
from itertools import product
from pathlib import Path

import pytest

from rotoscope.replayer.vocabulary_file import words_in
from rotoscope.traces import UnusableInput

WORDS = ["".join(word) for word in product("bcdfg", "aeiou", "lmnr")]


def written(folder: Path, content: object) -> Path:
    path = folder / "tokenizer.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def test_words_of_a_vocabulary_of_bytes_are_tokens_with_a_space_and_without(tmp_path: Path) -> None:
    names = [*WORDS[1:], *(f"\u0120{word}" for word in reversed(WORDS)), "\u0120and", "\u0120long", "xyz"]
    vocabulary = {name: number for number, name in enumerate(names)}

    assert words_in(written(tmp_path, {"model": {"vocab": vocabulary}})) == [f" {word}" for word in WORDS[:0:-1]]


def test_words_of_sentence_pieces_have_their_space_at_the_start_too(tmp_path: Path) -> None:
    vocabulary = [[f"\u2581{word}", -1.5] for word in WORDS]

    assert words_in(written(tmp_path, {"model": {"vocab": vocabulary}})) == [f" {word}" for word in WORDS]


def test_words_of_a_tiktoken_file_stand_in_it_by_rank(tmp_path: Path) -> None:
    texts = [*WORDS, *(f" {word}" for word in WORDS)]
    lines = [base64.b64encode(text.encode()) + b" %d" % number for number, text in enumerate(texts)]

    assert words_in(written(tmp_path, b"\n".join(lines) + b"\n")) == [f" {word}" for word in WORDS]


def test_where_there_are_no_words_characters_are_taken(tmp_path: Path) -> None:
    vocabulary = {chr(0x4E00 + number): number for number in range(100)} | {"a": 100, "\u00e9": 101}

    assert words_in(written(tmp_path, {"model": {"vocab": vocabulary}})) == list(vocabulary)[:100]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"model": {"vocab": {"a": 1}}}, "no words of one token each"),
        ({"model": {"vocab": 5}}, "neither a tokenizer.json nor a .tiktoken"),
        ({"model": {"vocab": {"a": "b"}}}, "neither a tokenizer.json nor a .tiktoken"),
        ({"vocab": {}}, "neither a tokenizer.json nor a .tiktoken"),
        (b"{", "neither a tokenizer.json nor a .tiktoken"),
        (b"", "neither a tokenizer.json nor a .tiktoken"),
        (b"\x00\x01\x02", "neither a tokenizer.json nor a .tiktoken"),
        (b"dGhl one two", "neither a tokenizer.json nor a .tiktoken"),
    ],
)
def test_other_files_are_refused_by_name(content: object, says: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=says):
        words_in(written(tmp_path, content))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="cannot read the tokenizer"):
        words_in(tmp_path / "none.json")
