from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from rotoscope.testing import make_trace
from rotoscope.traces import TraceError, save
from rotoscope.traces.corpus import (
    MANIFEST_NAME,
    CorpusName,
    Member,
    calls_in_order,
    read_manifest,
    sha256_of,
    write_manifest,
)
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats import open_traces
from rotoscope.traces.formats.recognise import corpus_called


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


CALLED = CorpusName("coding-agents", "1.0")


def named_folder(folder: Path) -> list[Member]:
    members = corpus_folder(folder)
    write_manifest(folder, [(member.name, member) for member in members], CALLED)
    return members


def test_a_corpus_is_called_what_its_manifest_says(tmp_path: Path) -> None:
    members = named_folder(tmp_path)

    opened = open_traces([tmp_path])

    assert [trace.member for trace in opened] == members
    assert corpus_called(opened) == CALLED


def test_a_part_of_a_corpus_or_twice_all_of_it_is_not_called_so(tmp_path: Path) -> None:
    named_folder(tmp_path)
    opened = open_traces([tmp_path])

    assert corpus_called(opened[:1]) is None
    assert corpus_called([*opened, *opened]) is None
    assert corpus_called([]) is None


def test_traces_without_a_manifest_or_with_two_are_not_called_anything(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        named_folder(tmp_path / name)
    alone = tmp_path / "alone.trace.json"
    save(make_trace(), alone)

    assert corpus_called(open_traces([tmp_path / "one", tmp_path / "other"])) is None
    assert corpus_called(open_traces([alone])) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"coding-agents"', '"Coding agents"', "name: expected up to 40 small letters, digits and dashes"),
        ('"coding-agents"', "1", "name: expected up to 40 small letters"),
        ('"1.0"', '"one"', "version: expected two or three numbers with dots"),
        ('"version": "1.0",\n', "", "version: expected two or three numbers with dots"),
        ('"name"', '"nom"', "expected format 'rotoscope.corpus' of version 1"),
    ],
)
def test_a_damaged_name_is_an_error_with_its_field(tmp_path: Path, old: str, new: str, expected: str) -> None:
    named_folder(tmp_path)
    edited(tmp_path, old, new)

    with pytest.raises(TraceError, match=expected):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "agents", "agents@", "@1.0", "Agents@1.0", "a gents@1.0", "agents@1", "agents@1.0-b"]
)
def test_a_name_has_its_version(text: str) -> None:
    with pytest.raises(UnusableInput, match="of a corpus is"):
        CorpusName.parse(text)


def test_a_name_is_read_as_it_is_typed() -> None:
    assert CorpusName.parse("coding-agents@1.0") == CALLED
    assert str(CALLED) == "coding-agents@1.0"


def test_the_digest_of_traces_can_be_recomputed_from_their_files(tmp_path: Path) -> None:
    members = corpus_folder(tmp_path)
    files = sorted(str(path) for path in tmp_path.glob("*.trace.json"))

    sums = subprocess.run(["sha256sum", *files], capture_output=True, check=True, text=True).stdout
    lines = "".join(f"{line.split()[0]}\n" for line in sums.splitlines())

    assert sha256_of(member.trace for member in members) == hashlib.sha256(lines.encode()).hexdigest()


def test_the_digest_depends_on_the_order_of_traces_and_on_nothing_but_them(tmp_path: Path) -> None:
    one, other = make_trace(turns=1), make_trace(turns=2)
    save(one, tmp_path / "any.json")

    assert sha256_of([one, other]) != sha256_of([other, one])
    assert sha256_of([open_traces([tmp_path])[0].trace, other]) == sha256_of([one, other])
