from __future__ import annotations

import logging

import pytest

from rotoscope.traces import TraceError
from rotoscope.traces.formats.fields import Fields, Notes, derived_id, trace_id_of


def test_a_value_is_read_with_its_type_and_an_absent_one_is_none() -> None:
    fields = Fields.of({"n": 3, "ms": 2, "text": "t", "list": [1, 2], "null": None})

    assert (fields.count("n"), fields.milliseconds("ms", unit_ms=1000), fields.text("text")) == (3, 2000.0, "t")
    assert (fields.counts("list"), fields.integers("list"), fields.texts("none")) == ((1, 2), (1, 2), ())
    absent = [fields.optional_count("null"), fields.optional_text("null"), fields.optional_milliseconds("null")]
    assert absent == [None, None, None]
    assert "null" not in fields


def test_an_error_says_where_a_field_stands() -> None:
    with pytest.raises(TraceError) as caught:
        Fields.of({"in": -1}, event=4, place="requests[2]").count("in")

    assert str(caught.value) == ("trace: event 4: requests[2].in: expected an integer from 0 to 2147483647, found -1")


def test_a_list_of_identities_may_hold_any_integer_but_nothing_else() -> None:
    assert Fields.of({"ids": [-1, 2**63]}).integers("ids") == (-1, 2**63)
    with pytest.raises(TraceError, match=r"ids\[1\]: expected an integer, found a boolean"):
        Fields.of({"ids": [1, True]}).integers("ids")


def test_derived_ids_depend_on_every_part_and_on_where_it_ends() -> None:
    ids = {derived_id("ab", "c"), derived_id("a", "bc"), derived_id("abc"), derived_id("ab", "c", "")}

    assert len(ids) == 4
    assert all(len(name) == 32 for name in ids)


def test_only_an_id_that_is_a_uuid_as_it_stands_is_kept() -> None:
    uuid = "0fb03a01-d629-4270-8a36-f871f895db86"

    assert trace_id_of("f", uuid) == uuid
    assert trace_id_of("f", "{" + uuid + "}") == derived_id("f", "{" + uuid + "}")
    assert trace_id_of("f", "") == derived_id("f", "")
    assert trace_id_of("f", "\ud800") != trace_id_of("g", "\ud800")


def test_notes_of_a_file_are_logged_in_one_line_and_nothing_without_any(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    notes.left_out(Fields.of({"a": 1, "b": 2, "c": 3, "d": None, "used": 5}), {"a": "field a"}, ["used"])

    notes.log(logging.getLogger("x"), "file")
    Notes().log(logging.getLogger("x"), "other")

    assert [record.getMessage() for record in caplog.records] == ["file: 1 x field a, 2 x unknown field (dropped)"]
