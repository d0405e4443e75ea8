from __future__ import annotations

from typing import Any

import orjson
import pytest
from chat_wire import pieces
from hypothesis import given, settings
from hypothesis import strategies as st

from rotoscope.recorder.json_list import ListFilter

VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.sampled_from('ab"\\{}[],: \n€𝄞'), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(st.sampled_from('a"\\{'), max_size=3), VALUES, max_size=3)


def taken(*chunks: bytes) -> list[Any]:
    """Feed chunks, which come out as they are, and return what was taken."""
    found: list[bytes] = []
    reader = ListFilter(found.append)
    for chunk in chunks:
        assert reader.feed(chunk) == chunk
        assert reader.held == b""
    assert reader.finish() == b""
    return [orjson.loads(x) if x.endswith(b"}") else x for x in found]


@settings(max_examples=80)
@given(st.lists(OBJECTS, max_size=4), st.lists(st.integers(0, 1000), max_size=10), st.booleans())
def test_the_objects_of_a_list_are_found_however_it_is_cut(
    objects: list[Any], cuts: list[int], is_indented: bool
) -> None:
    data = orjson.dumps(objects, option=orjson.OPT_INDENT_2 if is_indented else 0)

    assert taken(*pieces(data, cuts)) == objects
    assert taken(*(bytes([byte]) for byte in data)) == objects


def test_an_object_is_taken_as_soon_as_it_is_whole() -> None:
    found: list[bytes] = []
    reader = ListFilter(found.append)
    reader.feed(b'[{"a":1}')

    assert found == [b'{"a":1}']


def test_an_object_in_the_place_of_a_list_is_taken() -> None:
    assert taken(b'{"error":', b'{"code":1}}') == [{"error": {"code": 1}}]


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"]}", b'["x"]', b"[[{}]]", b"3", b'"'])
def test_what_holds_no_objects_gives_none(data: bytes) -> None:
    assert taken(data) == []


def test_an_object_that_is_cut_is_taken_for_what_it_is() -> None:
    assert taken(b'[{"a":1},{"b":') == [{"a": 1}, b'{"b":']


def test_an_object_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotoscope.recorder.json_list.LARGEST_EVENT_BYTES", 100)

    with pytest.raises(ValueError, match="does not end"):
        taken(b'[{"a":"' + b"x" * 200)
