from __future__ import annotations

import gzip
import hashlib
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
from tokenizer_files import word_tokenizer

from rotoscope.recorder.token_counters import (
    EncodingCounter,
    FileCounter,
    Tokenizer,
    chosen_tokenizer,
    load_counter,
)
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.offline_encodings import CARRIER, ENCODINGS

CACHE_NAMES = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
"""As tiktoken names the files that it keeps."""


@pytest.fixture
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def carried(name: str) -> bytes:
    """Return the file of an encoding as tiktoken would download it."""
    spec = find_spec(CARRIER)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return gzip.decompress(Path(spec.submodule_search_locations[0], "data", f"{name}.tiktoken.gz").read_bytes())


def cache(folder: Path, name: str, content: bytes) -> Mapping[str, str]:
    """Keep the file of an encoding in a folder as tiktoken does, and return the environment that names it."""
    (folder / CACHE_NAMES[name]).write_bytes(content)
    return {"TIKTOKEN_CACHE_DIR": str(folder)}


def hide_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotoscope.traces.offline_encodings.CARRIER", "no_such_package")


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_counts_without_the_network(without_network: None, name: str) -> None:
    counter = load_counter(Tokenizer(name))

    assert counter.name == name
    counts = {
        text: counter.count(text) for text in ("", "hello world", "antidisestablishmentarianism", "<|endoftext|>")
    }
    assert counts == {"": 0, "hello world": 2, "antidisestablishmentarianism": 6, "<|endoftext|>": 7}


def test_auto_takes_the_encoding_of_current_models_and_none_takes_none() -> None:
    assert chosen_tokenizer("auto") == Tokenizer("o200k_base")
    assert chosen_tokenizer("none") is None


def test_auto_takes_nothing_where_no_file_is_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_carrier(monkeypatch)

    assert chosen_tokenizer("auto", {"TIKTOKEN_CACHE_DIR": str(tmp_path)}) is None


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_that_is_not_at_hand_is_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_carrier(monkeypatch)

    with pytest.raises(UnusableInput, match="is not at hand and is not downloaded"):
        chosen_tokenizer(name, {"TIKTOKEN_CACHE_DIR": str(tmp_path)})


def test_what_tiktoken_has_kept_is_used(without_network: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = cache(tmp_path, "cl100k_base", carried("cl100k_base"))
    hide_carrier(monkeypatch)

    assert chosen_tokenizer("cl100k_base", environment) == Tokenizer("cl100k_base")
    assert EncodingCounter("cl100k_base", environment).count("hello world") == 2


def test_a_damaged_file_is_never_used_nor_removed_nor_replaced_from_the_network(
    without_network: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = carried("cl100k_base")[:-1]
    environment = cache(tmp_path, "cl100k_base", damaged)
    hide_carrier(monkeypatch)

    with pytest.raises(UnusableInput, match="is damaged"):
        EncodingCounter("cl100k_base", environment)
    assert (tmp_path / CACHE_NAMES["cl100k_base"]).read_bytes() == damaged


def test_behind_a_damaged_file_the_next_place_is_looked_at(tmp_path: Path) -> None:
    assert EncodingCounter("cl100k_base", cache(tmp_path, "cl100k_base", b"damaged")).count("hello world") == 2


def test_a_cache_that_is_switched_off_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_carrier(monkeypatch)

    assert chosen_tokenizer("auto", {"TIKTOKEN_CACHE_DIR": ""}) is None


def test_a_file_is_named_for_its_content_and_not_for_its_place(tmp_path: Path) -> None:
    (tmp_path / "secret-model").mkdir()
    file = word_tokenizer(tmp_path / "secret-model" / "tokenizer.json")
    name = f"file-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"

    assert chosen_tokenizer(str(file)) == Tokenizer(name, file)
    assert chosen_tokenizer(str(file.parent)) == Tokenizer(name, file)


def test_a_file_counts_whole_texts_even_where_it_says_to_cut_them(tmp_path: Path) -> None:
    counter = FileCounter("file-0", word_tokenizer(tmp_path / "tokenizer.json", most_tokens=2))

    assert counter.count("one two, three four") == 5


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model": "m"}', b"\x00\x01"])
def test_what_is_no_tokenizer_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(content)

    with pytest.raises(UnusableInput, match="is no tokenizer"):
        chosen_tokenizer(str(tmp_path / "t.json"))


def test_a_file_that_only_looks_like_a_tokenizer_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"model": {"type": "Unheard"}}')

    with pytest.raises(UnusableInput, match=r"cannot be read as a tokenizer"):
        FileCounter("file-0", tmp_path / "t.json")


def test_a_name_that_is_neither_known_nor_a_file_is_refused_with_what_is_known() -> None:
    with pytest.raises(UnusableInput, match=r"'gpt-9'.*expected auto, none, o200k_base, cl100k_base or a tokenizer"):
        chosen_tokenizer("gpt-9")
