"""No text can be put into a recording so that an audit passes it, wherever it is put; and the audit never repeats it."""

from __future__ import annotations

import json
import re
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotoscope.recorder import Recorder
from rotoscope.testing import make_trace
from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import FileFindings, Findings
from rotoscope.traces.audit_kinds import TRACE_KINDS, check_journal, check_manifest, check_trace
from rotoscope.traces.corpus import dump_manifest
from rotoscope.traces.journal import JournalHeader
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.writer import dumps

MARK = "zq"
"""Neither the name of a field nor a part of an id; whatever it is in is text."""
TEXTS = st.text(max_size=8).map(lambda text: f"{MARK}{text}{MARK}")
CHECKS = {"trace": check_trace, "journal": check_journal, "manifest": check_manifest}


@cache
def sample(kind: str) -> bytes:
    if kind == "trace":
        return dumps(make_trace(turns=2))
    if kind == "manifest":
        return dump_manifest({"trace-0001.trace.json": (0.0, (0, 2)), "trace-0002.trace.json": (4.0, (1,))})
    file = BytesIO()
    recorder = Recorder(journal=JournalWriter(file))
    for number in range(2):
        body = {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}
        exchange = recorder.request("/v1/chat/completions", json.dumps(body).encode(), at_s=float(number))
        exchange.response(200, at_s=number + 0.25, content_type="application/json")
        answer = {
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]
        }
        exchange.chunk(json.dumps(answer).encode(), at_s=number + 0.25)
        exchange.end(at_s=number + 0.5)
    return file.getvalue()


def findings_of(kind: str, data: bytes) -> list[str]:
    """Check data as a kind of file; return what was found. What is no file of that kind at all is found too."""
    known = next(one for one in TRACE_KINDS if one.title == kind)
    if not known.recognises("run-0001.json", data[:4096]):
        return ["is of no kind that may be shown"]
    findings = Findings()
    CHECKS[kind](data, FileFindings("file", findings), Census())
    return [str(one) for one in findings.kept]


@pytest.mark.parametrize("kind", CHECKS)
def test_the_samples_are_clean(kind: str) -> None:
    assert findings_of(kind, sample(kind)) == []


@pytest.mark.parametrize("kind", ["trace", "journal"])
@settings(max_examples=50)
@given(place=st.integers(0, 10**6), text=TEXTS)
def test_a_text_that_is_put_anywhere_is_found_and_not_repeated(kind: str, place: int, text: str) -> None:
    data = sample(kind)
    at = place % (len(data) + 1)

    found = findings_of(kind, data[:at] + text.encode("utf-8", "surrogatepass") + data[at:])

    assert found
    assert not any(MARK in said for said in found)


VALUE = re.compile(rb'(?<=[:\[,])( ?)("[^"]*"|[0-9.]+)(?=[,}\]])')


@pytest.mark.parametrize("kind", CHECKS)
def test_no_value_can_be_replaced_by_a_text(kind: str) -> None:
    data = sample(kind)
    places = [(value.start(2), value.end(2)) for value in VALUE.finditer(data)]
    assert len(places) > 5

    for start, end in places:
        found = findings_of(kind, data[:start] + b'"zq words zq"' + data[end:])
        assert found
        assert not any(MARK in said for said in found)


@pytest.mark.parametrize("kind", CHECKS)
@settings(max_examples=50)
@given(place=st.integers(0, 10**6), blank=st.text(" \t\n\r", min_size=1, max_size=5))
def test_white_space_that_is_put_anywhere_is_found(kind: str, place: int, blank: str) -> None:
    data = sample(kind)
    at = place % (len(data) + 1)

    assert findings_of(kind, data[:at] + blank.encode() + data[at:])


@pytest.mark.parametrize("kind", CHECKS)
@settings(max_examples=50)
@given(place=st.integers(0, 10**6), junk=st.binary(max_size=20), cut=st.integers(0, 30))
def test_damage_of_any_kind_is_found_or_is_a_file_like_any_other(kind: str, place: int, junk: bytes, cut: int) -> None:
    data = sample(kind)
    at = place % (len(data) + 1)

    findings_of(kind, data[:at] + junk + data[at + cut :])


def test_a_journal_tells_its_tokenizer_and_whether_a_key_may_be_left() -> None:
    header = JournalHeader(trace_id="00000001", campaign="00000002", is_named=True, tokenizer="o200k_base")
    file, findings, census = BytesIO(), Findings(), Census()
    JournalWriter(file).begin(header)
    check_journal(file.getvalue(), FileFindings("file", findings), census)

    assert [(name.kind, name.value) for name, _ in findings.sorted_names()] == [("tokenizer", "o200k_base")]
    assert list(census.lines()) == ["journals 1, 1 of named campaigns: end those first"]


def test_the_key_of_a_campaign_is_no_file_to_show(tmp_path: Path) -> None:
    from rotoscope.traces.audit import audit

    (tmp_path / "key").write_text('{"format":"rotoscope.campaign","version":1,"id":"00","key":"00"}\n')

    assert [one.what.split(";")[0] for one in audit([tmp_path]).findings.kept] == ["is of no kind that may be shown"]
