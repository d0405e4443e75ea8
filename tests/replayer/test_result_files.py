from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.gpu_telemetry.readings import GpuSample
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.result_files import RESULT_KINDS
from rotoscope.replayer.results import GPUS_FILE, SERVER_FILE, TIMELINE_FILE, ResultsFolder
from rotoscope.replayer.server_metrics.counts import Growth
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.summary import Summary, summarise
from rotoscope.replayer.timeline import timeline_of
from rotoscope.traces.audit import Audit, audit

SECRET = "what somebody wrote"


def audited(folder: Path) -> Audit:
    return audit([folder], kinds=RESULT_KINDS)


def findings_of(folder: Path) -> list[str]:
    return [str(one).removeprefix(f"{folder}/") for one in audited(folder).findings.kept]


def put(folder: Path, name: str, change: dict[str, Any]) -> None:
    """Change the first object of a file, written as the replayer writes it."""
    path = folder / name
    first, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps(json.loads(first) | change, separators=(",", ":")) + "\n" + rest)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    requests = [make_request_result(branch=(0, 1)), make_request_result(status="failed", failure=FailureKind.DNS)]
    sessions = [make_session_result(number) for number in range(4)]
    with ResultsFolder.opened(tmp_path) as folder:
        for request in requests:
            folder.write_request(request)
        for session in sessions:
            folder.write_session(session)
        folder.write_line(SERVER_FILE, ServerSample(at_s=0.5, prompt=100.0, kv_usage=0.25))
        folder.write_line(GPUS_FILE, GpuSample(at_s=0.5, gpu=1, power_w=300.5, memory_mib=131072.0, xid=79))
        for part in timeline_of(requests, [50, 50], [], duration_s=40.0):
            folder.write_line(TIMELINE_FILE, part)
        folder.write_summary(summary(requests, sessions).as_dict())
    return tmp_path


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "recorded", "gamma:0.5", "gamma:1e-05"])
def test_an_open_loop_is_told_in_few_words(results: Path, arrivals: str) -> None:
    setup = asdict(make_setup(concurrency=None, rate_per_h=720.0, arrivals=arrivals, mix=(3.0, 1.0)))
    content = json.loads((results / "summary.json").read_text())

    def found(arrivals: str) -> bool:
        content["setup"] = setup | {"arrivals": arrivals}
        (results / "summary.json").write_bytes(
            orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2)
        )
        return any("arrivals" in one for one in findings_of(results))

    assert not found(arrivals)
    assert found(SECRET)


def summary(requests: Any, sessions: Any) -> Summary:
    return summarise(
        make_setup(words=300, limits=Limits(ttft_s=2.0), template=ChatTemplate(4, 3, 2, 3, 1), tokens_from="usage"),
        requests=requests,
        optimal_tokens=[50, 50],
        sessions=sessions,
        planned_requests=8,
        without_ids=0,
        interrupted=False,
        duration_s=40.0,
        counted=Growth(
            family="vllm",
            unit="tokens",
            restarted=False,
            external_cached=None,
            output_tokens=3.0,
            preemptions=2.0,
            prompt=9.0,
            cached=3.0,
        ),
    )


def test_the_results_of_a_replay_are_clean(results: Path) -> None:
    done = audited(results)

    assert [str(one) for one in done.findings.kept] == []
    assert (done.files, done.census.results) == (6, 28)
    assert {name.kind for name, _ in done.findings.sorted_names()} == {
        "engine",
        "model",
        "salt",
        "corpus name",
        "server version",
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"error_type": SECRET}, "results.jsonl:1: error_type: expected match pattern"),
        ({"failure": SECRET}, "results.jsonl:1: failure: expected 'dns'"),
        ({SECRET: 1}, "results.jsonl:1: <name of 19 characters>: unknown field"),
        ({"start_s": 1_764_460_000.5}, "results.jsonl:1: start_s: a number that reads as a time since 1970 in seconds"),
        ({"ttft_s": "1"}, "results.jsonl:1: ttft_s: expected a valid number"),
    ],
)
def test_what_no_replay_writes_is_found(results: Path, change: dict[str, Any], expected: str) -> None:
    put(results, "results.jsonl", change)

    assert any(said.startswith(expected) for said in findings_of(results))
    assert SECRET not in str(findings_of(results))


@pytest.mark.parametrize(
    "name",
    ["api", "profile", "version", "command", "corpus_name", "corpus_version", "corpus_sha256", "server_version"],
)
def test_a_name_of_our_own_cannot_be_another(results: Path, name: str) -> None:
    path = results / "summary.json"
    whole = json.loads(path.read_text())
    whole["setup"][name] = SECRET.replace(" ", "-").title()
    path.write_text(json.dumps(whole, indent=2) + "\n")

    assert [said for said in findings_of(results) if said.startswith(f"summary.json: setup.{name}: expected")]


@pytest.mark.parametrize(("family", "is_ours"), [("vllm", True), ("llama.cpp", True), ("what-they-said", False)])
def test_a_family_of_engines_is_a_short_name(results: Path, family: str, is_ours: bool) -> None:
    path = results / "summary.json"
    path.write_text(path.read_text().replace('"family": "vllm"', f'"family": "{family}"'))

    assert (findings_of(results) == []) == is_ours


def test_a_line_in_another_spelling_is_found(results: Path) -> None:
    path = results / "sessions.jsonl"
    path.write_text(path.read_text().replace(",", " ,", 1) + '{"session"')

    assert [said.split(",")[0] for said in findings_of(results)] == [
        "sessions.jsonl:5: ends within a line",
        "sessions.jsonl:1: is not spelled as Rotoscope writes it",
    ]


def test_a_summary_is_held_to_its_fields_too(results: Path) -> None:
    path = results / "summary.json"
    whole = json.loads(path.read_text())
    whole["setup"]["model"] = SECRET
    whole["cache"]["text"] = SECRET
    path.write_text(json.dumps(whole, indent=2) + "\n")

    assert [said.split(": expected")[0] for said in findings_of(results)] == [
        "summary.json: setup.model",
        "summary.json: cache.<name of 4 characters>: unknown field",
    ]


@pytest.mark.parametrize("name", ["server.jsonl", "timeline.jsonl", "gpus.jsonl"])
def test_what_is_seen_of_server_and_gpus_is_numbers_only(results: Path, name: str) -> None:
    assert findings_of(results) == []

    field = {"server.jsonl": "prompt", "timeline.jsonl": "requests", "gpus.jsonl": "gpu"}[name]
    put(results, name, {field: SECRET})

    assert len(findings_of(results)) == 1


def test_what_a_gate_says_is_read_by_people_and_its_name_is_one_of_ours(results: Path) -> None:
    path = results / "summary.json"
    whole = json.loads(path.read_text())

    def findings_with(gate: dict[str, Any]) -> tuple[list[str], set[str]]:
        whole["validity"] = {"valid": False, "gates": [gate]}
        path.write_bytes(orjson.dumps(whole, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2))
        return findings_of(results), {str(name.kind) for name, _ in audited(results).findings.sorted_names()}

    gate = {"name": "lag", "passed": False, "measured": 0.03, "limit": 0.02, "says": "the client is late"}
    found, kinds = findings_with(gate)
    assert found == []
    assert "notes to read" in kinds
    assert [said.split(": expected")[0] for said in findings_with(gate | {"name": "wait"})[0]] == [
        "summary.json: validity.gates[0].name"
    ]
