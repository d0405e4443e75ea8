from __future__ import annotations

from typing import Any

import pytest

from rotoscope.recorder.dialects.request import NotACall
from rotoscope.recorder.dialects.wire_json import inner, parsed, parsed_body


@pytest.mark.parametrize(
    ("data", "value"),
    [(b'{"a":1}', {"a": 1}), ("[1]", [1]), (b"", None), (b"{", None), (b"\xff", None), (b"[" * 9999, None)],
)
def test_what_is_no_json_says_nothing(data: str | bytes, value: Any) -> None:
    assert parsed(data) == value


@pytest.mark.parametrize(("body", "request_"), [(b'{"a":1}', {"a": 1}), (b"[1]", {}), (b"null", {}), (b'"x"', {})])
def test_a_body_that_is_no_object_has_no_fields(body: bytes, request_: dict[str, Any]) -> None:
    assert parsed_body(body) == request_


def test_a_body_that_is_no_json_is_no_call() -> None:
    with pytest.raises(NotACall, match="the body is not JSON"):
        parsed_body(b"CANARY{")


@pytest.mark.parametrize("value", [None, 3, "x", [], [{}]])
def test_a_field_that_is_no_object_is_an_empty_one(value: Any) -> None:
    assert inner({"a": value}, "a") == inner({}, "a") == {}
    assert inner({"a": {"b": 1}}, "a") == {"b": 1}
