from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces.errors import TraceError
from rotoscope.traces.strict_json import parse_strictly

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(VALUES)
def test_a_plain_value_is_parsed_without_remark(value: object) -> None:
    parsed = parse_strictly(json.dumps(value).encode())

    assert (parsed.value, parsed.oddities) == (value, ())


@pytest.mark.parametrize(
    ("text", "oddity"),
    [
        ('{"a": "what was said", "a": 1}', "names a field of an object twice"),
        ('{"a": [{"b": 1, "b": 1}]}', "names a field of an object twice"),
        ("\ufeff{}", "begins with a byte order mark"),
        ("[NaN]", "has NaN or Infinity"),
        ("[-Infinity]", "has NaN or Infinity"),
        ("[" + "7" * 21 + "]", "has an integer of more than 20 digits"),
        ("[" + "7" * 9000 + "]", "has an integer of more than 20 digits"),
        ("[0." + "0123456789" * 3 + "]", "has a number of more than 24 characters"),
    ],
)
def test_what_a_lenient_parser_lets_pass_is_noticed(text: str, oddity: str) -> None:
    assert parse_strictly(text.encode()).oddities == (oddity,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{} secret", "goes on behind its end at line 1 column 4"),
        (b'{"a": 1} // secret', "goes on behind its end"),
        (b'{"a": 1 /* secret */}', "is not JSON at line 1 column 9"),
        (b'{"secret": \xff}', "is not UTF-8 at byte 11"),
        (b"[" * 200_000, "is nested too deeply"),
        (b"", "is not JSON"),
        (b"{'secret': 1}", "is not JSON"),
        (b'{"a": 01}', "is not JSON"),
    ],
)
def test_what_is_no_json_is_refused_without_showing_it(data: bytes, message: str) -> None:
    with pytest.raises(TraceError) as raised:
        parse_strictly(data)

    assert message in str(raised.value)
    assert "secret" not in str(raised.value)
