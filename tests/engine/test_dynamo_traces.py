"""Request traces that Dynamo itself writes are read, and those that are converted Dynamo itself performs.

In both directions what its cache reuses is compared with the optimum. Tried where `make bench-engine` has installed it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from engine.conftest import MODELS
from engine.dynamo_replay import BLOCK_SIZE, DYNAMO, ROOT, best_share, performed
from engine.processes import post
from engine.real_engines import MissingEngine, Server, real_engines

from rotoscope.testing import make_trace
from rotoscope.traces import Trace, dumps
from rotoscope.traces.analysis.optimum import Assumptions, planned_hits_together
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.dynamo_writer import write_corpus
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import open_trace, open_traces

SECRET = "s3cret"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The request trace of a run: a session of three turns with a sub-session of two, and prompts that name no session."""
    folder = tmp_path_factory.mktemp("dynamo")
    engines = {one.name: one for one in real_engines(vllm=ROOT / ".venv-vllm", dynamo=DYNAMO.parents[1], models=MODELS)}
    engine = engines["dynamo"]
    if isinstance(engine, MissingEngine):
        pytest.skip(engine.reason)
    path = folder / "trace.jsonl"
    variables = {
        "DYN_REQUEST_TRACE": "1",
        "DYN_REQUEST_TRACE_FILE_PATH": str(path),
        "DYN_REQUEST_TRACE_FILE_FORMAT": "jsonl",
        "DYN_REQUEST_TRACE_RECORDS": "request_end,tool,request_payload",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with engine.start(folder) as server:
            chat(server, "parent", turns=1)
            chat(server, "child", turns=2, parent="parent")
            chat(server, "parent", turns=3, first=1)
            for tokens in (200, 250, 300):
                post(f"{server.url}/v1/completions", {"model": server.model, "prompt": ids(tokens), "max_tokens": 10})
    return path


def chat(server: Server, session: str, *, turns: int, first: int = 0, parent: str | None = None) -> None:
    """Perform turns of a session, each of which goes on where the one before ended."""
    headers = {"x-dynamo-session-id": f"{session} {SECRET}"}
    if parent is not None:
        headers["x-dynamo-parent-session-id"] = f"{parent} {SECRET}"
    messages = [{"role": "user", "content": f"{SECRET} {session} " * 20}]
    for turn in range(turns):
        if turn >= first:
            body = {"model": server.model, "messages": messages, "max_tokens": 12}
            post(f"{server.url}/v1/chat/completions", body, headers)
        messages += [{"role": "assistant", "content": "done"}, {"role": "user", "content": f"and {turn} " * 20}]


def ids(tokens: int) -> list[int]:
    return list(range(300, 300 + tokens))


def test_what_dynamo_writes_is_read_with_its_sessions(recorded: Path) -> None:
    members = [trace.member for trace in open_traces([recorded])]

    branches = [[call.branch for call in member.trace.calls()] for member in members]
    assert [None, (0, 0), (0, 0), None, None] in branches
    assert [None, None, None] in branches
    assert all(call.ttft_ms and call.duration_ms for member in members for call in member.trace.calls())


def test_what_dynamo_found_in_its_cache_is_what_its_hashes_say(recorded: Path) -> None:
    members = [trace.member for trace in open_traces([recorded])]

    profile = profile_named("dynamo-mocker", block_size=members[0].trace.prefix_granularity)
    planned = planned_hits_together(members, Assumptions(profile=profile, preload=False))

    assert planned == [[call.cached_tokens for call in member.trace.calls()] for member in members]
    assert sum(map(sum, planned)) > 1000


def test_nothing_that_was_said_to_dynamo_is_in_the_traces(recorded: Path) -> None:
    assert SECRET in recorded.read_text()

    assert not any(SECRET.encode() in dumps(trace.trace) for trace in open_traces([recorded]))


def replayed_by_dynamo(trace: Trace, folder: Path) -> dict[str, float]:
    path = folder / "trace.jsonl"
    path.write_bytes(b"".join(write_corpus([Member(name="", trace=trace)], Fidelity(), block_size=BLOCK_SIZE)))
    summary, _ = performed(path, "dynamo")
    return summary


def test_dynamo_performs_a_session_and_reuses_what_is_best(tmp_path: Path) -> None:
    trace = make_trace(turns=6, isl=900, system=640, osl=100, new=333, tool_ms=2000.0, call_ms=1500.0)

    found = replayed_by_dynamo(trace, tmp_path)

    assert (found["completed_requests"], found["total_trajectories"]) == (6, 1)
    assert found["total_input_tokens"] == sum(call.prompt_tokens for call in trace.calls())
    assert found["prefix_cache_reused_ratio"] == pytest.approx(best_share(trace))


def test_dynamo_performs_a_session_with_sub_agents(tmp_path: Path, data_dir: Path) -> None:
    trace = open_trace(data_dir / "weka" / "trace_0277.json")

    found = replayed_by_dynamo(trace, tmp_path)

    assert found["completed_requests"] == len(list(trace.calls()))
    assert found["total_output_tokens"] == sum(call.completion_tokens for call in trace.calls())
    assert found["prefix_cache_reused_ratio"] == pytest.approx(best_share(trace))
