from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rotoscope.testing import make_trace, trace_of
from rotoscope.traces import RunFailed, Trace, UnusableInput, dumps, save
from rotoscope.traces.corpus import MANIFEST_NAME, Member, write_manifest
from rotoscope.traces.formats import LabelledTrace, open_trace, open_traces
from rotoscope.traces.formats.convert import NO_CALLS, NO_ORDER, Target, convert, new_folder
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.registry import Format, format_named

OURS = format_named("rotoscope")
LENGTHS = Aspect("prompt lengths", "kept")


def write_lines(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    for member in members:
        fidelity.note(LENGTHS)
        yield b"%b %d\n" % (member.name.encode(), block_size)


LINES = Format(
    name="lines",
    title="Lines",
    told_by="",
    looks_like=lambda head: False,
    read=lambda source, fidelity: [],
    suffix=".jsonl",
    write_corpus=write_lines,
    block_size=512,
)


def traces_in(folder: Path, *names: str) -> list[LabelledTrace]:
    for number, name in enumerate(names, 1):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        save(make_trace(number), path)
    return open_traces([folder])


def converted(traces: Sequence[LabelledTrace], path: Path | str, format: Format = OURS, **options: bool | int) -> int:
    return convert(traces, Target(path=str(path), format=format, **options), Fidelity())  # type: ignore[arg-type]


def test_one_trace_becomes_the_file_that_is_named(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.trace.json")

    assert converted(traces, tmp_path / "new" / "b.json") == 1
    assert open_trace(tmp_path / "new" / "b.json") == traces[0].trace


def test_several_traces_become_a_folder_with_a_name_for_each(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.trace.json", "x/a.json", "y/a.trace.json")

    assert converted(traces, tmp_path / "out") == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a-2.trace.json",
        "a-3.trace.json",
        "a.trace.json",
    ]
    assert [one.trace for one in open_traces([tmp_path / "out"])] == [traces[i].trace for i in (1, 2, 0)]


def test_one_trace_goes_into_a_folder_that_is_there(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json")
    (tmp_path / "out").mkdir()

    converted(traces, tmp_path / "out")

    assert os.listdir(tmp_path / "out") == ["a.trace.json"]


def test_a_corpus_keeps_its_clock_and_order(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    traces = traces_in(folder, "a.json", "b.json")
    members = [
        Member(name="a", trace=traces[0].trace, start_ms=7.0, ranks=(2,)),
        Member(name="b", trace=traces[1].trace, start_ms=0.0, ranks=(0, 1)),
    ]
    write_manifest(folder, zip(("a.json", "b.json"), members, strict=True))

    converted(open_traces([folder]), tmp_path / "out")

    placed = [one.member for one in open_traces([tmp_path / "out"])]
    assert [(one.trace, one.start_ms, one.ranks) for one in placed] == [(m.trace, m.start_ms, m.ranks) for m in members]


def test_traces_of_several_corpora_have_no_common_order(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    traces = traces_in(folder, "a.json", "x/b.json")
    write_manifest(folder, [("a.json", Member(name="a", trace=traces[0].trace, start_ms=7.0, ranks=(0,)))])

    fidelity = Fidelity()
    convert(open_traces([folder]), Target(path=str(tmp_path / "out"), format=OURS), fidelity)

    assert fidelity.counts == {NO_ORDER: 2}
    assert MANIFEST_NAME in os.listdir(tmp_path / "out")
    assert [one.member.ranks for one in open_traces([tmp_path / "out"])] == [None, None]


@pytest.mark.parametrize(("given", "expected"), [({}, 512), ({"block_size": 64}, 64)])
def test_a_format_of_many_traces_gives_one_file_with_its_blocks(
    tmp_path: Path, given: dict[str, int], expected: int
) -> None:
    traces = traces_in(tmp_path / "in", "a.json", "b.json")

    assert converted(traces, tmp_path / "out.jsonl", LINES, **given) == 1
    assert (tmp_path / "out.jsonl").read_text() == f"a {expected}\nb {expected}\n"


def test_a_file_is_compressed_where_its_name_says_so(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json")

    converted(traces, tmp_path / "out.json.gz")

    assert gzip.decompress((tmp_path / "out.json.gz").read_bytes()) == dumps(traces[0].trace)
    assert open_trace(tmp_path / "out.json.gz") == traces[0].trace


@pytest.mark.parametrize("name", ["file.json", "folder"])
def test_nothing_is_overwritten_unless_that_is_asked_for(tmp_path: Path, name: str) -> None:
    traces = traces_in(tmp_path / "in", "a.json", "b.json")
    target = tmp_path / name
    if name == "folder":
        target.mkdir()
    kept = target / "kept" if name == "folder" else target
    kept.write_text("mine")
    chosen = traces if name == "folder" else traces[:1]

    with pytest.raises(UnusableInput, match=r"--force"):
        converted(chosen, target)

    assert kept.read_text() == "mine"
    converted(chosen, target, overwrites=True)
    assert [one.trace for one in open_traces([target])] == [one.trace for one in chosen]
    assert name != "folder" or kept.read_text() == "mine"


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json", "b.json")

    def fail(trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes:
        raise UnusableInput("no")

    def fail_later(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
        yield b"part"
        raise UnusableInput("no")

    for format in (
        Format(
            name="x", title="X", told_by="", looks_like=LINES.looks_like, read=LINES.read, suffix="", write_trace=fail
        ),
        Format(
            name="x",
            title="X",
            told_by="",
            looks_like=LINES.looks_like,
            read=LINES.read,
            suffix="",
            write_corpus=fail_later,
        ),
    ):
        with pytest.raises(UnusableInput, match="no"):
            converted(traces, tmp_path / "out", format)

    assert os.listdir(tmp_path) == ["in"]


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json", "b.json")

    with pytest.raises(UnusableInput, match="are 2 files of Rotoscope: name a folder"):
        converted(traces, "-")
    with pytest.raises(UnusableInput, match="is a file, expected a folder"):
        converted(traces, tmp_path / "in" / "a.json")
    with pytest.raises(UnusableInput, match="keeps all traces in one file"):
        converted(traces, tmp_path / "in", LINES)
    with pytest.raises(UnusableInput, match="has no blocks"):
        converted(traces, tmp_path / "out", block_size=16)
    with pytest.raises(UnusableInput, match="no format 'x' to write: choose one of rotoscope"):
        format_named("x")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json")

    with pytest.raises(RunFailed, match="cannot be written"):
        converted(traces, tmp_path / "in" / "a.json" / "b.json")


def test_nothing_is_made_beside_a_folder_that_is_there_since_it_may_be_a_volume_of_its_own(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json", "b.json")
    (tmp_path / "out").mkdir()
    seen = []

    def look(trace: Trace, fidelity: Fidelity, *, block_size: int) -> bytes:
        seen.append(sorted(os.listdir(tmp_path)))
        return b"{}"

    converted(traces, tmp_path / "out", replace(OURS, write_trace=look))

    assert seen == [["in", "out"]] * 2
    assert sorted(os.listdir(tmp_path / "out")) == ["a.trace.json", "b.trace.json"]


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_link_is_followed_and_not_replaced(tmp_path: Path, is_dangling: bool) -> None:
    traces = traces_in(tmp_path / "in", "a.json")
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    if not is_dangling:
        target.write_text("mine")
        with pytest.raises(UnusableInput, match="--force"):
            converted(traces, link)

    converted(traces, link, overwrites=not is_dangling)

    assert link.is_symlink()
    assert open_trace(target) == traces[0].trace


@pytest.mark.parametrize("overwrites", [False, True])
def test_a_pipe_or_device_is_written_into_and_not_replaced(tmp_path: Path, overwrites: bool) -> None:
    traces = traces_in(tmp_path / "in", "a.json")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    converted(traces, pipe, overwrites=overwrites)

    assert os.read(reader, 1 << 16) == dumps(traces[0].trace)
    assert pipe.is_fifo()
    os.close(reader)


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json")

    converted(traces, tmp_path / ("x" * 255))

    assert open_trace(tmp_path / ("x" * 255)) == traces[0].trace


def test_a_corpus_is_not_mixed_with_other_traces(tmp_path: Path) -> None:
    rows = b"".join(b'{"timestamp":%d,"input_length":9,"output_length":1,"hash_ids":[%d]}\n' % (n, n) for n in range(3))
    (tmp_path / "x.jsonl").write_bytes(rows)
    out = tmp_path / "out"
    converted(open_traces([tmp_path / "x.jsonl"]), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    for given in (f"{tmp_path / 'x.jsonl'}#1", str(out / "x-2.trace.json")):
        with pytest.raises(UnusableInput, match="holds a corpus of other traces"):
            converted(open_traces([given]), out, overwrites=True)

    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_an_old_manifest_goes_with_the_traces_that_it_placed(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.json")
    (tmp_path / "out").mkdir()
    write_manifest(tmp_path / "out", [("a.trace.json", Member(name="a", trace=traces[0].trace, ranks=(0, 1, 2)))])

    converted(traces, tmp_path / "out", overwrites=True)

    assert [(one.trace, one.corpus) for one in open_traces([tmp_path / "out"])] == [(traces[0].trace, None)]


def test_traces_from_standard_input_get_names_that_are_no_options(tmp_path: Path) -> None:
    members = [Member(name=name, trace=make_trace()) for name in ("", "0", "1")]
    traces = [LabelledTrace("x", Path("-"), member) for member in members]

    converted(traces, tmp_path / "out")

    assert sorted(os.listdir(tmp_path / "out")) == ["0.trace.json", "1.trace.json", "trace.trace.json"]


def test_a_file_with_a_row_a_call_leaves_out_traces_without_calls_and_says_so(tmp_path: Path) -> None:
    traces = traces_in(tmp_path / "in", "a.trace.json", "b.trace.json")
    save(trace_of(), tmp_path / "in" / "none.trace.json")
    fidelity = Fidelity()

    convert(
        open_traces([tmp_path / "in"]), Target(path=str(tmp_path / "out.jsonl"), format=format_named("vcr")), fidelity
    )

    calls = sum(1 for one in traces for _ in one.trace.calls())
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == 1 + calls
    assert fidelity.counts[NO_CALLS] == 1


@pytest.mark.parametrize("others", [0, 2])
def test_where_no_trace_has_a_call_a_file_with_a_row_a_call_is_refused(tmp_path: Path, others: int) -> None:
    names = ["a.trace.json", "b.trace.json", "c.trace.json"][: others + 1]
    for name in names:
        save(trace_of(), tmp_path / name)
    said = r"a\.trace\.json: has no call" + (", nor has any of 2 others" if others else "")

    with pytest.raises(UnusableInput, match=said):
        converted(open_traces([tmp_path / name for name in names]), tmp_path / "out", format_named("tracelab-csv"))

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["rotoscope", "trtllm", "weka"])
def test_a_file_of_one_trace_holds_one_without_calls(tmp_path: Path, name: str) -> None:
    save(trace_of(), tmp_path / "none.trace.json")

    converted(open_traces([tmp_path / "none.trace.json"]), tmp_path / "out", format_named(name))

    assert not list(open_trace(tmp_path / "out").calls())


def fill_beside_somebody_else(folder: Path) -> None:
    with new_folder(folder, overwrites=False) as unfinished:
        for name in ("a", "b", "c"):
            (unfinished / name).write_text("ours")
        (folder / "b").write_text("theirs")


def test_a_folder_that_somebody_else_fills_meanwhile_keeps_theirs_and_gets_no_part_of_ours(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()

    with pytest.raises(FileExistsError):
        fill_beside_somebody_else(folder)

    assert {path.name: path.read_text() for path in folder.iterdir()} == {"b": "theirs"}
    assert list(tmp_path.iterdir()) == [folder]
