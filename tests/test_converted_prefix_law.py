"""The prefix law on the wire (L2) for files that hold a record a line: what prompts share is what their hashes say.

Expected is what brute force finds in the file itself; nothing of the code that reads it takes part in the check.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
from captured_simulator import Place, replayed, with_short_outputs
from foreign_events import BLOCK, dynamo, dynamo_request, vcr, vcr_record
from format_samples import SAMPLES
from test_prefix_law_on_the_wire import check_against_file, common_prefix

from rotoscope.traces import dumps
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source


@dataclass(frozen=True)
class Prompt:
    """A prompt as its file has it."""

    hashes: Sequence[int]
    tokens: int


def shared_tokens(a: Prompt, b: Prompt) -> int:
    """What two prompts share: whole blocks, or all of it where they are equal to the end of a partial block."""
    pairs = zip(a.hashes, b.hashes, strict=False)
    blocks = next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a.hashes), len(b.hashes)))
    return (
        min(blocks * BLOCK, a.tokens)
        if a.tokens == b.tokens
        else min(blocks, a.tokens // BLOCK, b.tokens // BLOCK) * BLOCK
    )


DYNAMO = [
    dynamo_request("a", 0, [1, 2, 3], session="A", tail=2),
    dynamo_request("b", 200, [1, 2, 4, 5], session="B"),
    dynamo_request("c", 400, [1, 2, 7, 8], session="A", tail=1),
    dynamo_request("d", 450, [1, 9], session="C", parent="A"),
    dynamo_request("e", 600, [1, 2, 4, 5], session="D"),
    dynamo_request("f", 700, [1, 2, 4, 5, 6], session="B", tail=3),
    dynamo_request("g", 900, [1, 2, 3], session="E", tail=2),
    dynamo_request("h", 950, [20, 21], session="E"),
]
VCR = [
    vcr_record(0, [1, 2, 3], tail=2),
    vcr_record(200, [1, 2, 4, 5]),
    vcr_record(400, [1, 2, 3, 8], tail=1),
    vcr_record(450, [1, 9]),
    vcr_record(500, None, tail=3),
    vcr_record(700, [1, 2, 4, 5, 6], tail=3),
]
FILES: dict[str, tuple[bytes, list[Prompt]]] = {
    "dynamo": (
        dynamo(*DYNAMO),
        [
            Prompt(replay["input_sequence_hashes"], replay["input_length"])
            for replay in (record["request"]["replay"] for record in DYNAMO)
        ],
    ),
    "vcr": (vcr(*VCR), [Prompt(record["block_hashes"] or [], record["prompt_tokens"]) for record in VCR]),
}


@pytest.mark.parametrize("name", FILES)
def test_prompts_of_all_sessions_share_what_their_hashes_say(name: str, tmp_path: Path) -> None:
    data, expected = FILES[name]
    members = read_source(Source.of_bytes(data))[1]
    places = {
        rank: Place(session, call)
        for session, member in enumerate(members)
        for call, rank in enumerate(member.ranks or ())
    }

    prompts = asyncio.run(replayed([with_short_outputs(m.trace) for m in members], tmp_path, lambda ids: ids))

    sent = [prompts[places[rank]] for rank in range(len(expected))]
    assert [len(ids) for ids in sent] == [prompt.tokens for prompt in expected]
    for a, b in combinations(range(len(expected)), 2):
        assert common_prefix(sent[a], sent[b]) == shared_tokens(expected[a], expected[b])


@pytest.mark.parametrize(
    ("name", "index"),
    [(name, index) for name in ("dynamo", "tracelab", "tracelab-csv", "vcr") for index in range(len(SAMPLES[name]))],
)
def test_prompts_of_a_session_share_what_its_trace_says(name: str, index: int, tmp_path: Path) -> None:
    members = read_source(Source.of_bytes(SAMPLES[name][index]))[1]
    traces = [m.trace if m.trace.outputs == "known" else with_short_outputs(m.trace) for m in members]

    for number, trace in enumerate(traces):
        prompts = asyncio.run(replayed([trace], tmp_path / str(number), lambda ids: ids))

        check_against_file({place.call: ids for place, ids in prompts.items()}, json.loads(dumps(trace)))
