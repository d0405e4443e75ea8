"""Mooncake rows of what turns add: Dynamo makes of them the prompts that were recorded.

Tried where `make bench-engine` has installed it.
"""

from __future__ import annotations

from pathlib import Path

from engine.dynamo_replay import BLOCK_SIZE, performed

from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_delta_writer import write_mooncake_delta
from rotoscope.traces.formats.recognise import open_traces

ROWS = 400


def test_dynamo_sends_with_a_later_turn_all_that_was_before_it(tmp_path: Path, data_dir: Path) -> None:
    rows = (data_dir / "mooncake" / "conversation_trace.jsonl").read_bytes().splitlines(keepends=True)[:ROWS]
    part, out = tmp_path / "part.jsonl", tmp_path / "out.jsonl"
    part.write_bytes(b"".join(rows))
    members = [trace.member for trace in open_traces([part])]
    out.write_bytes(b"".join(write_mooncake_delta(members, Fidelity(), block_size=BLOCK_SIZE)))

    _, requests = performed(out, "mooncake-delta")

    calls = [call for member in members for call in member.trace.calls()]
    assert sorted((r["input_length"], r["output_length"]) for r in requests) == sorted(
        (call.prompt_tokens, call.completion_tokens) for call in calls
    )
    assert any(request["turn_index"] for request in requests)
