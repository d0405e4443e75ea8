"""The prefix law on the wire (L2) for the reference files, replayed on the simulator.

For Mooncake's files the prompts are compared with the block ids of the source, by the digests of their beginnings: an
id stands for one beginning and a beginning has one id; and what parts, parts at the first token of a block. The others
are compared pair by pair with the references of the trace. By default a part of each large file is replayed;
ROTOSCOPE_WHOLE_DATA=1 takes them whole (`make test-data`).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from captured_simulator import Ids, Place, lengths_of, replayed, with_short_outputs
from test_prefix_law_on_the_wire import check_against_file, data_files

from rotoscope.traces import dumps
from rotoscope.traces.formats import open_trace
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.source import Source

BLOCK = 512
PART_ROWS = 200


@dataclass
class Beginnings:
    """A prompt as the digests of its first blocks, each of all tokens up to its end, and the first token of each."""

    digests: list[bytes]
    first_tokens: list[int]

    @classmethod
    def of(cls, ids: Ids) -> Beginnings:
        digest = blake2b(digest_size=16)
        digests = []
        for start in range(0, len(ids), BLOCK):
            digest.update(ids[start : start + BLOCK].tobytes())
            digests.append(digest.digest())
        return cls(digests, ids[::BLOCK].tolist())


@dataclass
class IdLaw:
    """Ids and beginnings, one for one."""

    digest_of: dict[int, bytes] = field(default_factory=dict)
    id_of: dict[bytes, int] = field(default_factory=dict)
    ways_on: dict[bytes, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """After a beginning: the first token of each block that follows it somewhere, by its id."""

    def check(self, block_ids: Sequence[int], prompt: Beginnings) -> None:
        assert len(block_ids) == len(prompt.digests)
        before = b""
        for block, digest, token in zip(block_ids, prompt.digests, prompt.first_tokens, strict=True):
            assert self.digest_of.setdefault(block, digest) == digest
            assert self.id_of.setdefault(digest, block) == block
            assert self.ways_on[before].setdefault(block, token) == token
            before = digest

    def check_partings(self) -> None:
        for ways in self.ways_on.values():
            assert len(set(ways.values())) == len(ways)


@pytest.mark.parametrize("name", data_files("mooncake/*.jsonl"))
def test_prompts_of_a_mooncake_file_share_the_blocks_of_their_rows(name: str, data_dir: Path, tmp_path: Path) -> None:
    lines = (data_dir / name).read_bytes().splitlines(keepends=True)
    lines = lines if os.environ.get("ROTOSCOPE_WHOLE_DATA") else lines[:PART_ROWS]
    rows = [json.loads(line) for line in lines]
    members = read_source(Source.of_bytes(b"".join(lines)))[1]
    traces = [with_short_outputs(member.trace) for member in members]

    prompts = asyncio.run(replayed(traces, tmp_path, Beginnings.of))

    places = row_places(members)
    assert sorted(places) == list(range(len(rows)))
    lengths = lengths_of(traces)
    law = IdLaw()
    for number, row in enumerate(rows):
        assert lengths[places[number]] == row["input_length"]
        law.check(row["hash_ids"], prompts[places[number]])
    law.check_partings()


@pytest.mark.parametrize(
    "name", data_files("weka/trace_*.json", "trtllm/*.trace.json", "trtllm/synthetic/*.trace.json")
)
def test_prompts_of_a_trace_share_what_its_references_say(name: str, data_dir: Path, tmp_path: Path) -> None:
    trace = open_trace(data_dir / name)
    if trace.outputs == "unknown":
        trace = with_short_outputs(trace)

    prompts = asyncio.run(replayed([trace], tmp_path, lambda ids: ids))

    check_against_file({place.call: ids for place, ids in prompts.items()}, json.loads(dumps(trace)))


def row_places(members: Sequence[Any]) -> dict[int, Place]:
    return {
        rank: Place(session, call.call)
        for session, member in enumerate(members)
        for rank, call in zip(member.ranks, member.trace.calls(), strict=True)
    }
