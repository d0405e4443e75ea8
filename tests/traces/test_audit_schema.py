from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Annotated, get_args, get_origin

import pytest
from pydantic import StringConstraints

from rotoscope.traces import journal, model
from rotoscope.traces.audit_schema import breaches, epoch_like, spells_text
from rotoscope.traces.model import Call, Prefix

WITHOUT_NAMES = {"HexId", "SharedId", "ToolName", "ToolCallId", "Digest", "ShortDigests"}
WITH_NAMES = {"TokenSource", "PrefixSource", "TokenizerName"}
"""What holds a name from outside; an audit lists it for a person to see."""


def test_no_string_is_let_through_without_thought() -> None:
    """A new kind of string has to be without names, or its names have to be listed: say so above."""
    found = {
        name
        for module in (model, journal)
        for name, kind in vars(module).items()
        if get_origin(kind) is Annotated and any(isinstance(mark, StringConstraints) for mark in get_args(kind))
    }

    assert found == WITHOUT_NAMES | WITH_NAMES


@pytest.mark.parametrize("module", [model, journal])
def test_no_field_is_a_string_of_any_kind(module: ModuleType) -> None:
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and is_dataclass(kind)]

    assert [
        (kind.__name__, one.name)
        for kind in kinds
        for one in fields(kind)
        if kind.__module__ == module.__name__ and "str" in str(one.type).split()
    ] == []


@pytest.mark.parametrize(
    ("digits", "is_text"),
    [
        (b"a secret".hex(), True),
        (b"Tell nobody else".hex(), True),
        (hashlib.sha256(b"1").digest()[:8].hex() + b"a secret".hex(), True),
        (b"Bob Smith, No. 7".hex(), True),
        (hashlib.sha256(b"1").digest()[:8].hex() + b"Room 12, Bldg. 4".hex(), True),
        (b"secret".hex(), False),  # six bytes are letters by chance too often
        ("deadbeefdeadbeef", False),
        ("5f1c9a4e", False),
        ("usage", False),
    ],
)
def test_hex_that_spells_a_text_is_told_from_digests(digits: str, is_text: bool) -> None:
    assert spells_text(digits) == is_text


def test_digests_spell_nothing() -> None:
    assert not any(
        spells_text(hashlib.blake2b(bytes([n, m]), digest_size=16).hexdigest()) for n in range(99) for m in range(99)
    )


def test_each_breach_is_told_with_its_path_once() -> None:
    call = {"call": "1", "conversation_id": 0, "prefix": {"of": "x", "tokens": -1, "source": "ids"}, "said": "hello"}

    assert dict(breaches(Call, call)) == {
        "call": "expected a valid integer",
        "message_index": "required, but not there",
        "prompt_tokens": "required, but not there",
        "completion_tokens": "required, but not there",
        "prefix.of": "expected a valid integer or expected match pattern '^s[0-9]{1,15}$'",
        "prefix.tokens": "expected greater than or equal to 0",
        "<name of 4 characters>": "unknown field",
    }


def test_a_value_that_is_allowed_has_no_breaches() -> None:
    assert list(breaches(Prefix, {"of": "s3", "tokens": 3, "source": "ids"})) == []


@pytest.mark.parametrize(
    "value", [1_764_460_000, -1_764_460_000, 1_764_460_000_123.5, 1_764_460_000_123_456, 1_764_460_000_123_456_789]
)
def test_times_since_1970_are_told_in_any_unit(value: float) -> None:
    assert [path for path, _ in epoch_like({"a": [0, {"b": value}]})] == ["a[1].b"]


@pytest.mark.parametrize("value", [0, 86_400_000.0, 900_000_000, True, "1764460000", None])
def test_counts_and_times_of_a_run_are_none(value: object) -> None:
    assert list(epoch_like([value])) == []
