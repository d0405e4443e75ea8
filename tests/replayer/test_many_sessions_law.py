"""Prompts of a corpus of thousands of sessions have the block ids of the file they were read from, and part where they do."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.tokens import TokenIds, Vocabulary
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.recognise import open_traces

BLOCK = 512
SESSIONS = 500
"""So many are made of a run of all."""


def block_keys(ids: TokenIds) -> list[tuple[bytes, int]]:
    """Name each block by all tokens up to its end, and by its length."""
    digest = hashlib.blake2b(digest_size=12)
    keys = []
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK]
        digest.update(block.tobytes())
        keys.append((digest.copy().digest(), len(block)))
    return keys


def made(members: list[Member], plan: PromptPlan) -> dict[int, tuple[list[tuple[bytes, int]], list[int]]]:
    """Return for each row its blocks, and the first token of each of them."""
    rows = {}
    for number, member in enumerate(members[:SESSIONS]):
        session = plan.session(number)
        for call, rank in zip(member.trace.calls(), member.ranks or (), strict=True):
            ids = session.ids(call.call)
            assert len(ids) == call.prompt_tokens
            rows[rank] = block_keys(ids), [int(token) for token in ids[::BLOCK]]
        session.close()
    return rows


@pytest.mark.parametrize("name", ["conversation_trace", "synthetic_trace"])
def test_prompts_have_the_blocks_of_the_file_and_part_with_the_first_token_that_differs(
    data_dir: Path, name: str
) -> None:
    path = data_dir / "mooncake" / f"{name}.jsonl"
    members = [trace.member for trace in open_traces([path])]
    blocks = [json.loads(line)["hash_ids"] for line in path.read_bytes().splitlines()]
    plan = PromptPlan(
        [member.trace for member in members],
        seed=1,
        salt="salt",
        sessions=len(members),
        vocabulary=Vocabulary(1000, 100_000),
    )

    names: dict[tuple[bytes, int], int] = {}
    firsts: dict[tuple[int | None, int], int] = {}
    for rank, (keys, tokens) in sorted(made(members, plan).items()):
        assert [names.setdefault(key, block) for key, block in zip(keys, blocks[rank], strict=True)] == blocks[rank]
        for parent, block, token in zip([None, *blocks[rank]], blocks[rank], tokens, strict=False):
            assert firsts.setdefault((parent, token), block) == block
    assert len(set(names.values())) == len(names)
    assert plan.unseparated == 0
