"""Lists that attributes hold flat."""

from __future__ import annotations

import pytest

from rotoscope.sdk.otlp.spans import Span, numbered


def test_items_come_in_the_order_of_their_numbers() -> None:
    told = {f"list.{number}.a.b": number for number in (10, 2, 0)} | {"list.2.c": 7, "other.0.a": 1}

    assert list(numbered(told, "list.")) == [{"a.b": 0}, {"a.b": 2, "c": 7}, {"a.b": 10}]


@pytest.mark.parametrize("name", ["list.x.a", "list.-1.a", "list.²", "list.9999999999999.a", "list"])
def test_what_has_no_number_is_no_item(name: str) -> None:
    assert list(numbered({name: 1}, "list.")) == []


def test_the_first_text_that_is_not_empty_is_taken() -> None:
    span = Span(trace_id="a", span_id="b", start_ns=1, end_ns=None, attributes={"x": "", "y": 7, "z": "canary"})

    assert span.text("x", "y", "z") == "canary"
    assert span.text("x", "y") == ""
    assert "canary" not in repr(span)
