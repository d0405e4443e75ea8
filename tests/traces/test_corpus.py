from __future__ import annotations

from pathlib import Path

import pytest

from rotoscope.testing import make_trace
from rotoscope.traces import TraceError, save
from rotoscope.traces.corpus import MANIFEST_NAME, Member, calls_in_order, read_manifest, write_manifest
from rotoscope.traces.formats import open_traces


def corpus_folder(folder: Path) -> list[Member]:
    members = [
        Member(name="a.trace.json", trace=make_trace(turns=2), start_ms=0.0, ranks=(0, 3)),
        Member(name="b.trace.json", trace=make_trace(turns=2), start_ms=5.0, ranks=(1, 2)),
    ]
    for member in members:
        save(member.trace, folder / member.name)
    write_manifest(folder, [(member.name, member) for member in members])
    return members


def test_a_folder_with_a_manifest_gives_the_members_it_was_written_from(tmp_path: Path) -> None:
    members = corpus_folder(tmp_path)

    opened = open_traces([tmp_path])

    assert [trace.member for trace in opened] == members
    assert [trace.corpus for trace in opened] == [tmp_path, tmp_path]
    assert [trace.name for trace in opened] == ["a.trace.json", "b.trace.json"]


def test_no_two_members_have_one_name_whatever_dots_their_files_have(tmp_path: Path) -> None:
    files = ["a.json", "a.trace.json", "a.b-0.json", "a.b-1.json"]
    members = [Member(name=file, trace=make_trace(seed)) for seed, file in enumerate(files, 1)]
    for member in members:
        save(member.trace, tmp_path / member.name)
    write_manifest(tmp_path, [(member.name, member) for member in members])

    assert len({one.member.name for one in open_traces([tmp_path])}) == len(files)


def test_calls_come_by_rank_and_else_trace_by_trace(tmp_path: Path) -> None:
    members = corpus_folder(tmp_path)
    unplaced = [Member(name=member.name, trace=member.trace) for member in members]

    assert [(index, call.call) for index, call in calls_in_order(members)] == [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert [(index, call.call) for index, call in calls_in_order(unplaced)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def edited(folder: Path, old: str, new: str) -> None:
    path = folder / MANIFEST_NAME
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"version":1', '"version":2', "expected format 'rotoscope.corpus' of version 1"),
        ('"traces"', '"tracks"', "expected format"),
        ("[0,3]", "[0]", "expected a rank for each of the 2 calls of 'a.trace.json', found 1"),
        ("[0,3]", "[0,1]", "expected each rank once"),
        ("[0,3]", "[0,-1]", r"traces\[0\].ranks: expected a list of ranks or null"),
        ("[0,3]", "7", r"traces\[0\].ranks: expected a list of ranks or null"),
        ("5.0", "-5.0", r"traces\[1\].start_ms: expected a time in milliseconds or null"),
        ("5.0", '"x"', r"traces\[1\].start_ms: expected a time in milliseconds or null"),
        ('"start_ms"', '"begin_ms"', r"traces\[0\]: expected an object with file, start_ms and ranks"),
        ('"a.trace.json"', '"b.trace.json"', r"traces\[1\].file: expected each file once|expected each file once"),
        ('"a.trace.json"', "3", r"traces\[0\].file: expected a string, found a number"),
        ('"a.trace.json"', '"c.trace.json"', "does not name 'a.trace.json'"),
        ("}\n]", "", "truncated"),
    ],
)
def test_a_damaged_manifest_is_one_error_with_its_file_and_place(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    corpus_folder(tmp_path)
    edited(tmp_path, old, new)

    with pytest.raises(TraceError, match=expected) as caught:
        open_traces([tmp_path])

    assert str(caught.value).startswith(str(tmp_path / MANIFEST_NAME))


def test_a_manifest_without_clock_and_order_is_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, [("a", Member(name="a", trace=make_trace()))])

    assert read_manifest(tmp_path).places == {"a": (None, None)}
