from __future__ import annotations

import copy
import gzip
import json
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import agent, call, message, request, tool, trtllm, weka
from format_samples import SAMPLES
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.results import FILE_NAMES, REQUESTS_FILE, SESSIONS_FILE, SUMMARY_FILE
from rotoscope.traces import Call, Prefix, Trace, TraceError, UnusableInput, dumps, loads
from rotoscope.traces.corpus import MANIFEST_NAME, Member, write_manifest
from rotoscope.traces.formats import read_trtllm, read_weka
from rotoscope.traces.formats.recognise import FURTHER_RESULT_FILES, RESULT_FILES, open_trace, open_traces
from rotoscope.traces.formats.registry import all_formats
from rotoscope.traces.formats.source import HEAD_BYTES
from rotoscope.traces.journal import JournalHeader
from rotoscope.traces.journal_files import JournalWriter

CALL = Call(
    call=0, conversation_id=0, message_index=0, prompt_tokens=5, completion_tokens=1, prefix=Prefix(None, 0, "usage")
)
OURS = dumps(Trace(trace_id="0" * 8, campaign="1" * 8, token_source="usage", events=(CALL,)))
TRTLLM = trtllm(message("user", 0, 6), call(1, 6), tool())
WEKA = weka(request(0, [1], api_time=1.0), agent(3, request(0, [2])), request(9, [1, 2]))
FILES = {"ours": OURS, "trtllm": TRTLLM, "weka": WEKA}


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("data", "prompt"), [(OURS, 5), (TRTLLM, 6), (WEKA, 64)])
def test_a_format_is_known_by_content_whatever_the_name(tmp_path: Path, data: bytes, prompt: int) -> None:
    path = written(tmp_path, "holiday.jpg", b" \n" + data)

    assert next(open_trace(path).calls()).prompt_tokens == prompt


@pytest.mark.parametrize(("data", "prompt"), [(TRTLLM, 6), (WEKA, 64)])
def test_the_order_of_keys_and_what_stands_between_does_not_matter(tmp_path: Path, data: bytes, prompt: int) -> None:
    shuffled = {"note": 'a "b": {[', "deep": {"requests": 1, "events": [1]}, **dict(reversed(json.loads(data).items()))}
    path = written(tmp_path, "x", json.dumps(shuffled, indent=2).encode())

    assert next(open_trace(path).calls()).prompt_tokens == prompt


def test_a_trace_that_is_longer_than_what_is_looked_at_is_read_whole(tmp_path: Path) -> None:
    data = trtllm(message("user", 0, 6, content='x" {' * HEAD_BYTES), call(1, 6))

    assert len(list(open_trace(written(tmp_path, "x", data)).calls())) == 1


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "an empty file"),
        (b" \n\t ", "an empty file"),
        (b"hello", "no JSON object"),
        (b"\x00" * 500, "no JSON object"),
        (os.urandom(2000).replace(b"{", b"}"), "no JSON object"),
        (b"[1, 2]", "no JSON object"),
        (b'"events"', "no JSON object"),
        (b"{}", "something else"),
        (b'{"deep": {"events": []}}', "something else"),
        (b'{"text": "\\"events\\": "}', "something else"),
        (b'{"timestamp": 1, "hash_ids": [1]}\n{"timestamp": 2}', "something else"),
        (b'{"text": "' + b'\\"' * HEAD_BYTES, "something else"),
        (b'{"events": [' + b"1, " * HEAD_BYTES, "something else"),
    ],
)
def test_anything_else_is_refused_by_name(tmp_path: Path, data: bytes, found: str) -> None:
    path = written(tmp_path, "x", data)

    with pytest.raises(TraceError) as caught:
        open_trace(path)

    titles = "" if "empty" in found else f" ({', '.join(known.title for known in all_formats())})"
    assert str(caught.value) == f"{path}: expected a trace{titles}, found {found}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("start", [b"", b"{", b'{"events": [', b'{"text": "'])
def test_a_huge_file_of_something_else_is_not_loaded(tmp_path: Path, start: bytes) -> None:
    path = written(tmp_path, "huge", start)
    os.truncate(path, 8 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(TraceError, match="expected a trace"):
        open_trace(path)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def edited(name: str, **changes: object) -> bytes:
    loaded = json.loads(FILES[name])
    part = loaded["events"] if "events" in loaded else loaded["requests"]
    for event in part:
        event.update({key: value for key, value in changes.items() if key in event})
    return json.dumps({**loaded, **{key: changes[key] for key in changes if key in loaded}}).encode()


DAMAGE = {
    "truncated": {name: data[: len(data) * 2 // 3] for name, data in FILES.items()},
    "cut in the head": {name: data[:60] for name, data in FILES.items()},
    "binary inside": {name: data[:-9] + b"\x00\xff" + data[-9:] for name, data in FILES.items()},
    "nested deeply": {name: data.rstrip()[:-1] + b', "x": ' + b"[" * 200_000 for name, data in FILES.items()},
    "wrong events": {name: edited(name, events={}, requests=7) for name in FILES},
    "wrong type": {name: edited(name, prompt_tokens="7", **{"in": [7]}) for name in FILES},
    "not a number": {name: edited(name, prompt_tokens=float("nan"), **{"in": float("nan")}) for name in FILES},
    "negative": {name: edited(name, completion_tokens=-1, out=-1) for name in FILES},
    "huge": {
        name: re.sub(rb'("(in|prompt_tokens)": ?)\d+', rb"\g<1>" + b"9" * 9000, data) for name, data in FILES.items()
    },
    "no id": {name: edited(name, trace_id=None, id=None) for name in FILES},
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, files in DAMAGE.items() for name in files], ids=str)
def test_every_damage_of_every_format_is_one_line_with_the_file_and_exit_code_2(
    tmp_path: Path, kind: str, name: str
) -> None:
    path = written(tmp_path, "x.json", DAMAGE[kind][name])

    with pytest.raises(UnusableInput) as caught:
        open_trace(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_ids_that_repeat_are_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "x", trtllm(tool("ls"), tool("ls"), call(0, 5), call(0, 5)))

    assert [event.tool_call_id for event in open_trace(path).events if hasattr(event, "tool_call_id")] == ["t0", "t1"]


@pytest.mark.parametrize("missing", ["nothing", "folder/nothing"])
def test_a_path_that_is_not_there_is_an_error(tmp_path: Path, missing: str) -> None:
    for attempt in (open_trace, lambda path: open_traces([path])):
        with pytest.raises(UnusableInput, match="cannot be read: No such file or directory"):
            attempt(tmp_path / missing)


def test_a_folder_is_no_trace_file(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="is a folder: name a trace in it"):
        open_trace(tmp_path)


def test_a_trace_may_come_through_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, WEKA)
    os.close(writing)

    assert len(list(open_trace(f"/dev/fd/{reading}").calls())) == 3
    os.close(reading)


TWO = b"\n".join(
    json.dumps({"timestamp": t, "input_length": 600, "output_length": 1, "hash_ids": [t, t + 1]}).encode()
    for t in (0, 5)
)


def test_one_trace_of_many_is_named_behind_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, "many.jsonl", TWO)
    names = [trace.member.name for trace in open_traces([path])]

    assert [trace.name for trace in open_traces([f"{path}#{names[1]}"])] == [f"many.jsonl#{names[1]}"]
    assert open_trace(f"{path}#{names[1]}") == open_traces([path])[1].trace
    with pytest.raises(TraceError, match=f"expected one trace, found 2: name one, many.jsonl#{names[0]} for one"):
        open_trace(path)
    with pytest.raises(TraceError, match=f"no trace 'x': there are names from '{names[0]}' to '{names[1]}'"):
        open_trace(f"{path}#x")


def test_a_file_may_have_a_hash_in_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a#b", OURS)

    assert open_trace(path) == open_traces([path])[0].trace


def test_folders_are_read_below_in_order_and_what_is_no_file_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("b/two.json", "b/a/one", "a/three", "z"):
        written(tmp_path, name, OURS)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a" / "up").symlink_to(tmp_path)

    traces = open_traces([str(tmp_path)])

    assert [str(trace.path.relative_to(tmp_path)) for trace in traces] == ["z", "a/three", "b/two.json", "b/a/one"]
    assert [trace.label for trace in traces] == [tmp_path.name, "a", "b", "a"]
    assert [trace.name for trace in traces] == ["z", "three", "two.json", "one"]
    assert f"{tmp_path}/a/link: skipped" in caplog.text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("damaged.trace.json", OURS[1:]),
        ("damaged.json.gz", gzip.compress(OURS[1:])),
        ("empty.jsonl", b""),
        ("other.csv", b"a,b\n"),
        ("object", b' {"some": "thing"}'),
        ("objects", b'[ {"some": "thing"}]'),
    ],
)
def test_what_could_be_meant_as_a_trace_in_a_folder_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, data: bytes
) -> None:
    written(tmp_path, "good", OURS)
    written(tmp_path, name, data)

    assert len(open_traces([tmp_path])) == 1
    assert f"{tmp_path}/{name}: skipped, it is no trace that is known" in caplog.text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("README.md", b"# Traces of mine"),
        ("linked.md", b"[![build](x)](y)"),
        (".gitignore", b"*"),
        (".gitkeep", b""),
        ("LICENSE", b"Apache License"),
        ("plot.png", b"\x89PNG\r\n"),
    ],
)
def test_what_is_plainly_no_trace_in_a_folder_is_passed_over_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, data: bytes
) -> None:
    written(tmp_path, "good", OURS)
    written(tmp_path, name, data)

    assert len(open_traces([tmp_path])) == 1
    assert caplog.text == ""


def test_what_a_replay_of_a_folder_leaves_in_it_is_passed_over_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, "good", OURS)
    (tmp_path / "replay-1").mkdir()
    session = b'{"session":0,"trace":0,"requests":12,"status":"ok"}\n'
    for name in FILE_NAMES:
        written(tmp_path / "replay-1", name, session)

    assert {REQUESTS_FILE, SESSIONS_FILE, SUMMARY_FILE} == RESULT_FILES
    assert set(FILE_NAMES) == RESULT_FILES | FURTHER_RESULT_FILES
    assert len(open_traces([tmp_path])) == 1
    assert caplog.text == ""
    (tmp_path / "replay-1" / SUMMARY_FILE).unlink()
    assert len(open_traces([tmp_path])) == 1
    assert f"{SESSIONS_FILE}: skipped, it is no trace that is known" in caplog.text


def test_a_journal_among_traces_is_called_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path, "a", OURS)
    with (tmp_path / "b").open("wb") as file:
        JournalWriter(file).begin(JournalHeader(trace_id="0" * 16, campaign="1" * 16))

    assert len(open_traces([tmp_path])) == 1
    assert f"{tmp_path}/b: skipped, it is the journal of a recording that runs or was killed" in caplog.text


def test_the_files_of_a_folder_are_read_by_name(tmp_path: Path) -> None:
    for name in "qfzbxamck":
        written(tmp_path, name, OURS)

    assert "".join(trace.name for trace in open_traces([tmp_path])) == "abcfkmqxz"


def test_a_file_that_is_named_must_be_a_trace(tmp_path: Path) -> None:
    path = written(tmp_path, "README.md", b"# no trace")

    with pytest.raises(TraceError, match="expected a trace"):
        open_traces([path])


def test_a_damaged_trace_in_a_folder_is_not_skipped(tmp_path: Path) -> None:
    written(tmp_path, "good", OURS)
    written(tmp_path, "bad", TRTLLM[:-5])

    with pytest.raises(TraceError, match="bad: the file ends in the middle"):
        open_traces([tmp_path])


def test_a_folder_without_any_trace_is_an_error(tmp_path: Path) -> None:
    written(tmp_path, "x", b"x")

    with pytest.raises(UnusableInput, match="no trace in this folder or below"):
        open_traces([tmp_path])


def test_a_file_with_an_equals_sign_is_no_label_where_one_of_its_traces_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a=b.jsonl"
    path.write_bytes(b'{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[1]}\n' * 2)

    (found,) = open_traces([f"{path}#1"])

    assert (found.label, found.member.name) == (tmp_path.name, "1")


def test_a_label_may_be_given_to_a_file_or_a_folder(tmp_path: Path) -> None:
    file, folder = written(tmp_path, "one", OURS), written(tmp_path, "more/two", OURS).parent

    traces = open_traces([f"mine={file}", f"theirs={folder}", file])

    assert [trace.label for trace in traces] == ["mine", "theirs", tmp_path.name]


def test_a_path_with_an_equals_sign_that_is_there_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "b=16/one", OURS)

    assert [(trace.label, str(trace.path)) for trace in open_traces(["b=16/one", "x=b=16"])] == [
        ("b=16", "b=16/one"),
        ("x", "b=16/one"),
    ]


@pytest.mark.parametrize("given", ["=x", "x="])
def test_an_empty_label_or_path_is_an_error(given: str) -> None:
    with pytest.raises(UnusableInput, match="expected LABEL=PATH"):
        open_traces([given])


RUN, SESSION = SAMPLES["trtllm"][0], SAMPLES["weka"][0]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.sampled_from(
        [
            2**30,
            2**31 - 1,
            2**31,
            2**63,
            2e8,
            2e11,
            10**30,
            0.5,
            -0.5,
            1e308,
            "",
            "x",
            "subagent",
            "assistant",
            "system",
            [],
            {},
            [0],
            [1],
        ]
    ),
    st.lists(st.integers(0, 3), max_size=3),
)


@pytest.mark.parametrize("data", [RUN, SESSION], ids=["trtllm", "weka"])
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), VALUES), min_size=1, max_size=4))
def test_whatever_is_changed_in_a_file_it_is_a_trace_or_one_clear_error(
    data: bytes, changes: list[tuple[int, object]]
) -> None:
    loaded = json.loads(data)
    for which, value in changes:
        places = list(all_places(loaded))
        container, key = places[which % len(places)]
        container[key] = copy.deepcopy(value)
    read = read_trtllm if data is RUN else read_weka

    trace, error = None, ""
    try:
        trace = read(json.dumps(loaded).encode(), "x")
    except TraceError as caught:
        error = str(caught)

    if trace is None:
        assert error.startswith("x: ")
    else:
        assert loads(dumps(trace)) == trace


def all_places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from all_places(item)


def test_a_manifest_named_among_traces_is_skipped_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trace = written(tmp_path, "a.trace.json", OURS)
    write_manifest(tmp_path, [(trace.name, Member(name="a", trace=loads(OURS), start_ms=0.0, ranks=(0,)))])

    found = open_traces(sorted(tmp_path.iterdir()))

    assert [one.path for one in found] == [trace]
    assert f"{tmp_path}/{MANIFEST_NAME}: skipped, it is a manifest; give its folder" in caplog.text


def test_a_manifest_alone_is_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    write_manifest(tmp_path, [])

    with pytest.raises(
        UnusableInput, match=f"{MANIFEST_NAME}: is the manifest of a corpus and no trace; give its folder"
    ):
        open_traces([tmp_path / MANIFEST_NAME])


def test_a_trace_may_have_the_name_of_a_manifest(tmp_path: Path) -> None:
    assert len(open_traces([written(tmp_path, MANIFEST_NAME, OURS)])) == 1
