from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.bootstrap import Bounds
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.gpu_telemetry.readings import GpuSample
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.reading import read_results, read_summary
from rotoscope.replayer.result_files import RESULT_KINDS
from rotoscope.replayer.results import FORMAT_VERSION, GPUS_FILE, SERVER_FILE, TIMELINE_FILE, ResultsFolder
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.summary import summarise
from rotoscope.traces.audit import audit
from rotoscope.traces.errors import TraceError, UnusableInput

VERSION_1 = Path(__file__).parent.parent / "data" / "results_of_version_1"

REQUESTS = (
    make_request_result(branch=(0, 1)),
    make_request_result(session=1, status="failed", failure=FailureKind.CUT_STREAM, latency_s=None),
)
SESSIONS = tuple(make_session_result(number) for number in range(4))
SAMPLES = (ServerSample(at_s=0.0, prompt=0.0), ServerSample(at_s=0.5, prompt=100.0, running=2.0))
GPU = GpuSample(at_s=0.5, gpu=1, power_w=300.5)
SUMMARY = replace(
    summarise(
        make_setup(limits=Limits(ttft_s=2.0), mix=(3.0, 1.0)),
        requests=REQUESTS,
        optimal_tokens=[50, 50],
        sessions=SESSIONS,
        planned_requests=2,
        without_ids=0,
        interrupted=False,
        duration_s=40.0,
    ),
    notes=("a note",),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with ResultsFolder.opened(tmp_path) as results:
        for request in REQUESTS:
            results.write_request(request)
        for session in SESSIONS:
            results.write_session(session)
        for sample in SAMPLES:
            results.write_line(SERVER_FILE, sample)
        results.write_line(GPUS_FILE, GPU)
        for part in SUMMARY.timeline:
            results.write_line(TIMELINE_FILE, part)
        results.write_summary(SUMMARY.as_dict())
    return tmp_path


def change(folder: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    """Alter the summary."""
    whole = json.loads((folder / "summary.json").read_text())
    alter(whole)
    (folder / "summary.json").write_text(json.dumps(whole))


def problem(folder: Path) -> str:
    """Return the error of reading, without the folder's name."""
    with pytest.raises(UnusableInput) as caught:
        read_results(folder)
    return str(caught.value).replace(f"{folder}/", "")


def test_what_was_written_is_read(folder: Path) -> None:
    results = read_results(folder)

    assert results.requests == REQUESTS
    assert results.sessions == SESSIONS
    assert results.server == SAMPLES
    assert results.gpus == (GPU,)
    assert results.timeline == SUMMARY.timeline
    assert len(results.timeline) == 20
    assert results.summary == replace(SUMMARY, request_results=(), optimal_tokens=(), timeline=())
    assert results.summary.window is not None
    assert isinstance(results.summary.window.jobs_per_h_per_gpu_interval, Bounds)


def test_results_of_version_1_are_read_and_audited() -> None:
    results = read_results(VERSION_1)

    assert (len(results.requests), len(results.sessions), results.summary.setup.model) == (12, 6, "tiny")
    assert (results.server, results.timeline, results.gpus) == ((), (), ())
    assert audit([VERSION_1], kinds=RESULT_KINDS).findings.kept == []


def test_results_of_version_1_are_read_whole(tmp_path: Path) -> None:
    shutil.copytree(VERSION_1, tmp_path / "old")
    results = read_results(tmp_path / "old")

    raw = json.loads((VERSION_1 / "summary.json").read_text())
    written = json.loads(orjson.dumps(results.summary.as_dict()))
    assert _only(written, raw) == raw | {"format": {"name": "rotoscope.results", "version": FORMAT_VERSION}}


def _only(value: Any, like: Any) -> Any:
    """Return of a value what another one has as well."""
    if not isinstance(value, dict) or not isinstance(like, dict):
        return value
    return {name: _only(value[name], like[name]) for name in like}


def test_a_newer_version_is_refused_by_its_number(folder: Path) -> None:
    newer = FORMAT_VERSION + 1
    change(folder, lambda whole: whole["format"].update(version=newer))

    assert problem(folder) == (
        f"summary.json: format.version: version {newer} is newer than {FORMAT_VERSION}, "
        "the newest this Rotoscope reads; upgrade Rotoscope"
    )


@pytest.mark.parametrize("version", [0, True, "2", None])
def test_a_version_is_a_number_from_1_on(folder: Path, version: object) -> None:
    change(folder, lambda whole: whole["format"].update(version=version))

    assert problem(folder).startswith(
        "summary.json: format: expected the name 'rotoscope.results' and a version from 1"
    )


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda whole: whole.update(text=1), "text: unknown field: a newer Rotoscope may have written it"),
        (
            lambda whole: whole.update(optimal_tokens=[1]),
            "optimal_tokens: unknown field: a newer Rotoscope may have written it",
        ),
        (
            lambda whole: whole["window"]["tokens"].update(text=1),
            "window.tokens.text: unknown field: a newer Rotoscope may have written it",
        ),
        (lambda whole: whole["setup"].pop("seed"), "setup.seed: required, but not there"),
        (lambda whole: whole["setup"].update(seed="1"), "setup.seed: expected a valid integer"),
        (lambda whole: whole.pop("format"), "format: expected the name 'rotoscope.results' and a version from 1 to 2"),
    ],
)
def test_a_summary_is_held_to_its_fields(folder: Path, alter: Callable[[Any], object], said: str) -> None:
    change(folder, alter)

    assert problem(folder) == f"summary.json: {said}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"call":0', b'"call":"0"', "results.jsonl:1: call: expected a valid integer"),
        (
            b'"call":0',
            b'"call":0,"text":1',
            "results.jsonl:1: text: unknown field: a newer Rotoscope may have written it",
        ),
        (b'"call":0,', b"", "results.jsonl:1: call: required, but not there"),
        (b'"call":0', b'"call":', "results.jsonl:1: expected JSON: the file is damaged or cut"),
        (b"}\n{", b"}\n[]\n{", "results.jsonl:2: expected an object"),
        (b"}\n{", b"}\n\n{", "results.jsonl:2: expected JSON: the file is damaged or cut"),
    ],
)
def test_a_damaged_line_is_named(folder: Path, old: bytes, new: bytes, said: str) -> None:
    path = folder / "results.jsonl"
    path.write_bytes(path.read_bytes().replace(old, new, 1))

    assert problem(folder) == said


@pytest.mark.parametrize("name", ["results.jsonl", "sessions.jsonl", "summary.json"])
def test_a_file_that_is_cut_anywhere_is_noticed(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for length in range(0, len(whole) - 1, 29):
        (folder / name).write_bytes(whole[:length])
        assert problem(folder).startswith(name)


def test_lines_are_as_many_as_the_summary_counts(folder: Path) -> None:
    lines = (folder / "sessions.jsonl").read_bytes()
    (folder / "sessions.jsonl").write_bytes(lines + lines.split(b"\n")[0] + b"\n")

    assert problem(folder) == "sessions.jsonl: expected 4 lines, as the summary counts them, found 5"


def test_a_run_that_was_killed_has_no_summary(folder: Path) -> None:
    (folder / "summary.json").unlink()

    assert problem(folder) == f"{str(folder)!r} holds no summary.json: expected the folder of a replay that has ended"


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "results.jsonl").unlink()

    assert problem(folder) == "results.jsonl: cannot be read: No such file or directory"


def test_the_summary_can_be_read_alone(folder: Path) -> None:
    (folder / "results.jsonl").write_bytes(b"damaged")

    assert read_summary(folder).setup == SUMMARY.setup
    with pytest.raises(TraceError):
        read_results(folder)
