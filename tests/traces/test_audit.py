from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from strategies import traces

from rotoscope.testing import make_trace
from rotoscope.traces.audit import MOST_BYTES, Audit, audit
from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import MOST_FINDINGS, FileFindings, Findings
from rotoscope.traces.audit_kinds import check_trace
from rotoscope.traces.canary import Canaries
from rotoscope.traces.corpus import CorpusName, Member, write_manifest
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.forest import normalise
from rotoscope.traces.model import Call, ParallelStart, Wait
from rotoscope.traces.reader import loads
from rotoscope.traces.writer import dumps

SECRET = "ignore all previous words"
SAID = re.compile(r"ignore|previous|secret", re.IGNORECASE)


def audited(folder: Path, **options: Any) -> Audit:
    return audit([folder], **options)


def findings_of(folder: Path, **options: Any) -> list[str]:
    """Audit a folder; what is found must not tell what it found."""
    done = audited(folder, **options)
    said = [str(one).removeprefix(f"{folder}/") for one in done.findings.kept]
    assert not any(map(SAID.search, said))
    assert not SAID.search(json.dumps(done.as_dict()).replace(str(folder), ""))
    return said


def put(folder: Path, data: bytes | str, name: str = "run-0001.trace.json") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    return path


def trace_with(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A trace of one call and its tool, changed as JSON and written in our way as far as that goes."""
    lines = dumps(make_trace(turns=2)).decode().splitlines()
    whole = json.loads("\n".join(lines))
    change(whole)
    return json.dumps(whole).encode()


def last_call(whole: dict[str, Any]) -> dict[str, Any]:
    call: dict[str, Any] = whole["events"][-1]
    return call


def tool_call(whole: dict[str, Any]) -> dict[str, Any]:
    call: dict[str, Any] = next(one for one in whole["events"] if one["event_type"] == "tool_call")
    return call


def test_a_recording_is_clean(tmp_path: Path) -> None:
    put(tmp_path, dumps(make_trace(turns=3)))

    done = audited(tmp_path)

    assert (done.is_clean, done.files, done.census.traces) == (True, 1, 1)
    assert not done.findings.names


@given(traces())
def test_whatever_the_model_allows_is_clean_but_for_where_times_begin(trace: object) -> None:
    findings = Findings()
    check_trace(dumps(normalise(trace)), FileFindings("x", findings), Census())  # type: ignore[arg-type]

    assert {one.what for one in findings.kept} <= {"times do not start at zero: publish it, which rebases them"}


FIELDS: Sequence[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("a field of the header", lambda t: t.update({SECRET: 1}), r"<name of 25 characters>: unknown field"),
    (
        "a field of an event",
        lambda t: last_call(t).update(note=SECRET),
        r"events\[\d\].<name of 4 characters>: unknown",
    ),
    (
        "a field of a prefix",
        lambda t: last_call(t)["prefix"].update(text=SECRET),
        r"prefix.<name of 4 characters>: unk",
    ),
    ("a field of the format", lambda t: t["format"].update(text=SECRET), r"format: expected the name"),
    ("a text for a pseudonym", lambda t: last_call(t).update(tool_calls=[SECRET]), r"tool_calls\[0\]: expected match"),
    ("a text for an enum", lambda t: last_call(t).update(finish_reason=SECRET), r"finish_reason: expected 'stop'"),
    (
        "a number as a string",
        lambda t: last_call(t).update(prompt_tokens="190"),
        r"prompt_tokens: expected a valid int",
    ),
    ("a truth as a number", lambda t: last_call(t).update(prompt_tokens=True), r"prompt_tokens: expected a valid int"),
    ("a source with a name", lambda t: t.update(token_source=f"tokenizer:{SECRET}"), r"token_source: expected match"),
    ("a kind of event", lambda t: last_call(t).update(event_type=SECRET), r"event_type: expected a kind of event"),
    ("a number that is great", lambda t: last_call(t).update(prompt_tokens=10**30), r"integer of more than 20 digits"),
    (
        "a unix time",
        lambda t: last_call(t).update(at_ms=1_764_460_000.0),
        r"at_ms: a number that reads as a time since",
    ),
    (
        "a unix time as a count",
        lambda t: last_call(t).update(cached_tokens=1_764_460_000),
        r"cached_tokens: a number th",
    ),
    ("a text in hex", lambda t: t.update(trace_id=b"secret words".hex()), r"trace_id: hex digits that spell a text"),
    ("a process id", lambda t: t.update(pid=4711), r"<name of 3 characters>: unknown field"),
    (
        "digits that are not ASCII",
        lambda t: last_call(t).update(tool_calls=["tool\u0661"]),
        r"tool_calls\[0\]: expected",
    ),
    ("a line end in an id", lambda t: last_call(t).update(tool_calls=["tool1\n"]), r"tool_calls\[0\]: expected"),
    ("half a character", lambda t: t.update(campaign="\ud800"), r"campaign: expected"),
    ("an event that is a text", lambda t: t["events"].append(SECRET), r"events\[\d\].event_type: expected a kind"),
    ("events that are a text", lambda t: t.update(events=SECRET), r"events: expected a list"),
    ("a reference to nothing", lambda t: last_call(t)["prefix"].update(of=99), r"prefix.of: expected the number of a"),
]


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in FIELDS], ids=[row[0] for row in FIELDS])
def test_what_is_not_allowed_is_found_and_not_shown(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    put(tmp_path, trace_with(change))

    assert any(re.search(expected, said) for said in findings_of(tmp_path))


LOOSE: Sequence[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    (
        "a path that is no branch's",
        lambda t: t["events"][0].update(branch_path=[104, 105]),
        r"branch_path: a path is not",
    ),
    ("a call's number", lambda t: last_call(t).update(call=104105), r"call: numbers are not 0, 1, 2"),
    ("a conversation", lambda t: last_call(t).update(conversation_id=104105), r"conversation_id: numbers are not"),
    ("a request", lambda t: last_call(t).update(request=104105), r"request: numbers are not 0, 1, 2"),
    ("a tool call", lambda t: tool_call(t).update(tool_call_id="t104105"), r"tool_call_id: numbers are not 0, 1, 2"),
    ("zeros before a pseudonym", lambda t: last_call(t).update(tool_calls=["tool0104"]), r"begins with zeros"),
    ("zeros before an id", lambda t: tool_call(t).update(tool_call_id="t000"), r"begins with zeros"),
    (
        "an id by time",
        lambda t: t.update(trace_id="0199a1b2-c3d4-7abc-8def-0123456789ab"),
        r"trace_id: an id that holds",
    ),
    ("an id with a date", lambda t: t.update(campaign="20261130a1b2c3d4"), r"campaign: an id that holds a time"),
    (
        "a text with capitals in hex",
        lambda t: t.update(trace_id=b"Bob Smith, No. 7".hex()),
        r"trace_id: hex digits that",
    ),
    ("digits of a time", lambda t: last_call(t).update(duration_ms=104.1051081), r"duration_ms: times are finer"),
    ("a sign of zero", lambda t: last_call(t).update(ttft_ms=-0.0), r"ttft_ms: times are finer"),
    ("a path for a tokenizer", lambda t: t.update(token_source="tokenizer:/models/mine"), r"reads as a path"),
    ("a folder for a tokenizer", lambda t: t.update(token_source="tokenizer:../model"), r"reads as a path"),
    (
        "many tokenizers",
        lambda t: [
            one.update(tokens_source=f"tokenizer:the/{n}") for n, one in enumerate(t["events"]) if "tokens" in one
        ],
        r"names 3 tokenizers, and a recording has 2 at most",
    ),
]


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in LOOSE], ids=[row[0] for row in LOOSE])
def test_what_is_valid_but_free_to_choose_is_found(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    put(tmp_path, dumps(loads(trace_with(change))))

    assert any(re.search(expected, said) for said in findings_of(tmp_path))


def test_paths_of_nested_branches_are_those_of_their_regions(tmp_path: Path) -> None:
    wait = Wait(kind="think", duration_ms=0.0)
    events = (
        ParallelStart(region=0, num_branches=2),
        replace(wait, branch=(0, 1), branch_path=(1,)),
        ParallelStart(region=1, num_branches=1, branch=(0, 1), branch_path=(1,)),
        replace(wait, branch=(1, 0), branch_path=(1, 0)),
    )
    trace = replace(make_trace(), events=events)
    put(tmp_path, dumps(trace))
    assert findings_of(tmp_path) == []

    for path in ((1,), (1, 0, 0), (1, 3)):
        put(tmp_path, dumps(replace(trace, events=(*events[:3], replace(wait, branch=(1, 0), branch_path=path)))))
        assert findings_of(tmp_path)


def test_what_lies_beside_the_bytes_of_a_file_is_found(tmp_path: Path) -> None:
    path = put(tmp_path, WHOLE)
    try:
        os.setxattr(path, "user.prompt", SECRET.encode())
    except (AttributeError, OSError):
        pytest.skip("no extended attributes here")

    assert findings_of(tmp_path) == [
        "run-0001.trace.json: has extended attributes, which go along with copies: remove them"
    ]


def test_the_line_of_an_event_is_told(tmp_path: Path) -> None:
    data = dumps(make_trace(turns=2)).replace(b'"stop"', b'"secret"')
    line = 1 + data[: data.index(b"secret")].count(b"\n")
    put(tmp_path, data)

    assert findings_of(tmp_path)[0].startswith(f"run-0001.trace.json:{line}: events[5].finish_reason: expected 'stop'")


WHOLE = dumps(make_trace(turns=1))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (WHOLE + SECRET.encode(), "goes on behind its end"),
        (WHOLE + b"\n \t \t\t ", "is not spelled as Rotoscope writes it"),
        (WHOLE.replace(b",", b" ,", 1), "is not spelled as Rotoscope writes it"),
        (WHOLE.replace(b'"usage"', b'"\\u0075sage"'), "is not spelled as Rotoscope writes it"),
        (WHOLE.replace(b'"tokens":40', b'"tokens":40,"tokens":40'), "names a field of an object twice"),
        (WHOLE.replace(b'"tokens":40', b'"tokens":"secret","tokens":40'), "names a field of an object twice"),
        (WHOLE.replace(b'"at_ms":0.0', b'"at_ms":0'), "is not spelled as Rotoscope writes it"),
        (WHOLE.replace(b'"at_ms":0.0', b'"at_ms":0.' + b"0" * 300), "a number of more than 24 characters"),
        (WHOLE.replace(b'"at_ms":0.0', b'"at_ms":NaN'), "has NaN or Infinity"),
        (WHOLE.replace(b'"at_ms":0.0', b'"at_ms":' + b"1" * 5000), "has an integer of more than 20 digits"),
        (b"\xef\xbb\xbf" + WHOLE, "is of no kind that may be shown"),
        (WHOLE[:-4], "is not JSON"),
        (b"/* secret */" + WHOLE, "is of no kind that may be shown"),
        (WHOLE.replace(b"{\n", b"{\n//secret\n", 1), "is not JSON"),
        (WHOLE.replace(b'"usage"', b'"usage\x00"'), "is not JSON"),
        (b'{"format": "rotoscope.trace", "a": ' + b"[" * 100_000, "is nested too deeply"),
        (WHOLE.replace(b'"at_ms":0.0', b'"at_ms":5.0'), "times do not start at zero"),
    ],
)
def test_nothing_hides_in_how_a_file_is_written(tmp_path: Path, data: bytes, expected: str) -> None:
    put(tmp_path, data)

    assert any(expected in said for said in findings_of(tmp_path))


def test_a_field_named_twice_is_found_at_its_line(tmp_path: Path) -> None:
    put(tmp_path, WHOLE.replace(b'"role":"user"', b'"role":"secret","role":"user"'))

    assert "run-0001.trace.json:11: names a field of an object twice" in findings_of(tmp_path)


def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path, f"{SECRET}\n", "names.txt")
    put(tmp_path, b"", ".hidden")

    assert [said.split(";")[0] for said in findings_of(tmp_path)] == [
        "<name of 7 characters>: its name could be somebody's text: rename it",
        "<name of 7 characters>: is of no kind that may be shown",
        "names.txt: is of no kind that may be shown",
    ]


def test_a_packed_recording_has_to_be_unpacked(tmp_path: Path) -> None:
    put(tmp_path, gzip.compress(WHOLE), "run-0001.trace.json.gz")

    assert findings_of(tmp_path) == ["run-0001.trace.json.gz: is of no kind that may be shown; unpack it"]


def test_names_of_files_and_folders_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / SECRET).mkdir()
    (tmp_path / "coder").mkdir()
    put(tmp_path / "coder", WHOLE, f"{SECRET}.trace.json")
    put(tmp_path / "coder", WHOLE, "coder-1.trace.json")

    done = audited(tmp_path)

    assert findings_of(tmp_path) == [
        "<name of 25 characters>: its name could be somebody's text: rename it",
        "coder/<name of 36 characters>: its name could be somebody's text: rename it",
    ]
    assert [(name.kind, name.value) for name, _ in done.findings.sorted_names()] == [
        ("file name", "coder-1.trace.json"),
        ("folder name", "coder"),
    ]


def test_links_and_pipes_are_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "run-1").symlink_to("/")
    os.mkfifo(tmp_path / "run-2.trace.json")

    assert findings_of(tmp_path) == [
        "run-1: is a link or a device, and not a file",
        "run-2.trace.json: is a link or a device, and not a file",
    ]


def test_names_of_tokenizers_are_listed_for_a_person_to_see(tmp_path: Path) -> None:
    trace = make_trace(turns=2)
    events = tuple(
        replace(one, prompt_tokens_source="tokenizer:acme-inc/agent") if isinstance(one, Call) else one
        for one in trace.events
    )
    put(tmp_path, dumps(replace(trace, token_source="tokenizer:o200k_base", events=events)))

    done = audited(tmp_path)

    assert done.is_clean
    assert [(name.value, times) for name, times in done.findings.sorted_names()] == [
        ("acme-inc/agent", 1),
        ("o200k_base", 1),
    ]


def test_a_manifest_is_checked(tmp_path: Path) -> None:
    trace = make_trace()
    put(tmp_path, dumps(trace), "a.trace.json")
    write_manifest(tmp_path, [("a.trace.json", Member(name="a", trace=trace, start_ms=0.0, ranks=(0,)))])
    assert findings_of(tmp_path) == []
    assert [name.value for name, _ in audited(tmp_path).findings.sorted_names()] == ["a.trace.json"] * 2

    write_manifest(tmp_path, [("a.trace.json", Member(name="a", trace=trace, start_ms=0.104105, ranks=(104105,)))])
    assert findings_of(tmp_path) == [
        "corpus.json: ranks: ranks are not 0, 1, 2 and so on: publish the corpus, which numbers them anew",
        "corpus.json: start_ms: times are finer than a microsecond: publish the corpus, which rounds them",
        "corpus.json: start_ms: times do not start at zero: publish it, which rebases them",
    ]

    write_manifest(tmp_path, [("a.trace.json", Member(name="a", trace=trace))], CorpusName("coding-agents", "1.0"))
    assert findings_of(tmp_path) == []
    assert ("corpus", "coding-agents") in [
        (name.kind, name.value) for name, _ in audited(tmp_path).findings.sorted_names()
    ]

    manifest = (tmp_path / "corpus.json").read_text()
    (tmp_path / "corpus.json").write_text(manifest.replace("coding-agents", SECRET))
    assert [said.partition(", ")[0] for said in findings_of(tmp_path)] == [
        "corpus.json: name: expected up to 40 small letters"
    ]

    write_manifest(tmp_path, [(SECRET, Member(name="a", trace=trace, start_ms=1_764_460_000_123.0))])
    assert findings_of(tmp_path) == ["corpus.json: traces[0].start_ms: expected a time in milliseconds or null"]

    write_manifest(tmp_path, [(SECRET, Member(name="a", trace=trace, start_ms=1_764_460.0))])
    assert findings_of(tmp_path) == [
        "corpus.json: traces: names a file in a way that could be somebody's text",
        "corpus.json: start_ms: times do not start at zero: publish it, which rebases them",
    ]


def test_canaries_are_found_beside_everything_else(tmp_path: Path) -> None:
    canaries = Canaries.of(["unrelated canary", SECRET], tokenizers={})
    (tmp_path / SECRET.replace(" ", "_")).mkdir()
    put(tmp_path, WHOLE)
    put(tmp_path, SECRET.encode().hex(), "notes.bin")

    searched = findings_of(tmp_path, canaries=canaries, only_canaries=True)
    assert searched == [
        "<name of 25 characters>: its name holds canary 2, joined by '_'",
        "notes.bin: holds canary 2 at byte 0, hex",
    ]
    assert "notes.bin: is of no kind" in " ".join(findings_of(tmp_path, canaries=canaries))


def test_a_name_that_holds_a_canary_is_not_shown(tmp_path: Path) -> None:
    put(tmp_path, WHOLE, "ignore-previous.trace.json")

    said = findings_of(tmp_path, canaries=Canaries.of(["ignore-previous"], tokenizers={}), only_canaries=True)

    assert said == ["<name of 26 characters>: its name holds canary 1, plain"]


def test_nothing_to_audit_is_no_proof(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="holds no file"):
        audit([tmp_path])
    with pytest.raises(UnusableInput, match="is not there"):
        audit([tmp_path / "missing"])


def test_the_census_says_what_lengths_tell(tmp_path: Path) -> None:
    put(tmp_path, dumps(make_trace(turns=4)), "run-0001.trace.json")
    put(tmp_path, dumps(make_trace(turns=4, tool_ms=0.5)), "run-0002.trace.json")

    census = audited(tmp_path).census

    assert list(census.lines()) == [
        "traces 2, campaigns 1, calls 8, tools 1",
        "prompt lengths: 4 different, 2.0 bits; 0 of 8 calls have one of their own",
        "output lengths: 1 different, 0.0 bits; 0 of 8 calls have one of their own",
        "tool results: 1 different, 0.0 bits; 0 of 6 messages have one of their own",
        "system prompts: 1 size: 40 tokens",
        "lengths are multiples of 10, times of less than 1 ms: 6 of 28 have digits behind the point, publish rounds them",
        "times: 28, up to 0.5 s from the start",
    ]


def test_a_file_that_no_recording_is_as_great_as_is_not_read(tmp_path: Path) -> None:
    path = put(tmp_path, WHOLE)
    os.truncate(path, MOST_BYTES + 1)

    assert findings_of(tmp_path) == ["run-0001.trace.json: is greater than 1,073,741,824 bytes, which no recording is"]


def test_what_of_many_findings_is_not_kept_is_counted(tmp_path: Path) -> None:
    put(tmp_path, trace_with(lambda whole: whole["events"].extend([SECRET] * 2 * MOST_FINDINGS)))

    done = audited(tmp_path)

    assert (len(done.findings.kept), done.findings.total) == (MOST_FINDINGS, 2 * MOST_FINDINGS)
