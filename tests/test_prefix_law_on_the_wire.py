"""The prefix law on bytes captured from the wire (L2): brute force over the id lists that were sent.

What is expected comes from the trace's own file as plain JSON, and for Weka traces also from the block ids of the
source; nothing of the code that reads or analyses traces takes part in the check.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pytest
from aiohttp import web
from completion_server import DONE, serving_completions, stream, token_event, usage_event
from conftest import find_data
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import traces

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import Gaps
from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Prefix, SharedPrefix, SharedPrefixLink, Trace, dumps
from rotoscope.traces.formats.recognise import open_trace

Ids = NDArray[np.uint32]
Pair = tuple[int, int]


def data_files(*patterns: str) -> list[str]:
    folder = find_data()
    if folder is None:
        return ["no reference data"]
    return sorted(str(path.relative_to(folder)) for pattern in patterns for path in folder.glob(pattern))


@pytest.mark.parametrize("returns_ids", [True, False], ids=["server ids", "no ids"])
@pytest.mark.parametrize(
    "name", data_files("weka/trace_*.json", "trtllm/*.trace.json", "trtllm/synthetic/*.trace.json")
)
def test_prompts_on_the_wire_share_what_the_trace_says(
    name: str, returns_ids: bool, data_dir: Path, tmp_path: Path
) -> None:
    trace = open_trace(data_dir / name)

    sent = asyncio.run(prompts_on_the_wire(trace, tmp_path, returns_ids=returns_ids))

    check_against_file(sent, json.loads(dumps(trace)))
    if name.startswith("weka/"):
        check_against_blocks(sent, json.loads(dumps(trace)), json.loads((data_dir / name).read_bytes()))


@settings(max_examples=25)
@given(traces(), st.booleans())
def test_prompts_of_any_forest_share_what_its_trace_says_on_the_wire(trace: Trace, returns_ids: bool) -> None:
    plain = json.loads(dumps(trace))
    assume(any("prefix" in event for event in plain["events"]))

    with TemporaryDirectory() as folder:
        sent = asyncio.run(prompts_on_the_wire(trace, Path(folder), returns_ids=returns_ids))

    check_against_file(sent, plain)


@pytest.mark.parametrize("returns_ids", [True, False], ids=["server ids", "no ids"])
def test_models_with_one_system_prompt_share_nothing_on_the_wire(returns_ids: bool, tmp_path: Path) -> None:
    system = [SharedPrefix("s0", "system", 40), SharedPrefix("s1", "group", 60, SharedPrefixLink("s0", 30))]
    prefixes: list[tuple[int | str, int, int]] = [
        *(("s0", 40, 0), ("s0", 40, 1), ("s1", 60, 1), ("s1", 50, 0)),
        *((0, 110, 0), (1, 110, 1), ("s0", 20, 2)),
    ]
    calls = [
        make_call(call, isl=100 if call < 4 else 130, prefix=Prefix(of, tokens, "ids"), domain=domain)
        for call, (of, tokens, domain) in enumerate(prefixes)
    ]
    trace = trace_of(*calls, shared_prefixes=system)

    sent = asyncio.run(prompts_on_the_wire(trace, tmp_path, returns_ids=returns_ids))

    check_against_file(sent, json.loads(dumps(trace)))
    assert common_prefix(sent[0], sent[1]) == 0


def check_against_file(sent: Mapping[int, Ids], plain: dict[str, Any]) -> None:
    calls = {event["call"]: event for event in plain["events"] if "prefix" in event}
    assert {call: len(ids) for call, ids in sent.items()} == {n: call["prompt_tokens"] for n, call in calls.items()}
    assert common_prefixes(sent) == expected_of_references(plain["shared_prefixes"], calls)


def check_against_blocks(sent: Mapping[int, Ids], plain: dict[str, Any], source: dict[str, Any]) -> None:
    lengths = {call["call"]: lengths_of(call) for call in plain["events"] if "prefix" in call}
    assert common_prefixes(sent) == expected_of_blocks(source, lengths)


@dataclass
class Capture:
    """Answer at once, keep every prompt, and tell its number as if it were the count of cached tokens."""

    returns_ids: bool
    prompts: list[Ids] = field(default_factory=list)

    async def answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        number = len(self.prompts)
        self.prompts.append(np.array(body["prompt"], np.uint32))
        tokens = body["max_tokens"]
        ids = [5_000 + (7 * number + place) % 20_000 for place in range(tokens)]
        answered = token_event(*ids) if self.returns_ids else token_event(token_ids=None)
        return await stream(request, [answered, usage_event(len(body["prompt"]), tokens, number), DONE])


async def prompts_on_the_wire(trace: Trace, folder: Path, *, returns_ids: bool) -> dict[int, Ids]:
    """Replay a trace once and return the prompts that arrived, by call."""
    capture = Capture(returns_ids)
    async with serving_completions(capture.answer) as server:
        options = ReplayOptions(url=server.url, salt="pepper", gaps=Gaps(scale=0), folder=folder)
        summary = await replay_async([trace], options)
    assert summary.is_complete
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    return {line["call"]: capture.prompts[line["cached_tokens"]] for line in map(orjson.loads, lines)}


def common_prefixes(prompts: Mapping[int, Ids]) -> dict[Pair, int]:
    return {(a, b): common_prefix(prompts[a], prompts[b]) for a, b in combinations(sorted(prompts), 2)}


def common_prefix(a: Ids, b: Ids) -> int:
    length = min(len(a), len(b))
    differs = a[:length] != b[:length]
    first = int(differs.argmax()) if length else 0
    return first if differs[first:].any() else length


def expected_of_references(shared: Sequence[dict[str, Any]], calls: Mapping[int, dict[str, Any]]) -> dict[Pair, int]:
    """Follow the references of the file: LCP(c, x) is n where x is named, else min(n, LCP(named, x)), 0 across domains."""
    nodes: list[int | str] = [one["id"] for one in shared] + sorted(calls)
    rank = {node: number for number, node in enumerate(nodes)}
    links = {one["id"]: one.get("prefix") or {"of": None, "tokens": 0} for one in shared}
    links |= {number: call["prefix"] for number, call in calls.items()}
    lengths = {number: call["prompt_tokens"] for number, call in calls.items()}
    domains = {number: call.get("domain", 0) for number, call in calls.items()}

    def lcp(a: int | str, b: int | str) -> float:
        if a == b:
            return float("inf")
        later, earlier = (a, b) if rank[a] > rank[b] else (b, a)
        link = links[later]
        return 0 if link["of"] is None else min(link["tokens"], lcp(link["of"], earlier))

    def of_prompts(a: int, b: int) -> int:
        return int(min(lcp(a, b), lengths[a], lengths[b])) if domains[a] == domains[b] else 0

    return {(a, b): of_prompts(a, b) for a, b in combinations(sorted(calls), 2)}


def expected_of_blocks(source: dict[str, Any], lengths: Mapping[int, Pair]) -> dict[Pair, int]:
    """Compare block ids; a call is the request of its lengths, which no other request of these files has."""
    by_lengths: dict[Pair, dict[str, Any]] = {}
    for entry in source["requests"]:
        for request in entry["requests"] if entry["type"] == "subagent" else [entry]:
            assert by_lengths.setdefault((request["in"], request["out"]), request) is request
    found = {call: by_lengths[pair] for call, pair in lengths.items()}
    assert len(found) == len(by_lengths)
    return {(a, b): common_blocks(found[a], found[b], source["block_size"]) for a, b in combinations(sorted(found), 2)}


def lengths_of(call: Mapping[str, Any]) -> Pair:
    return call["prompt_tokens"], call["completion_tokens"]


def common_blocks(a: dict[str, Any], b: dict[str, Any], block_size: int) -> int:
    if a["model"] != b["model"]:
        return 0
    equal = 0
    for left, right in zip(a["hash_ids"], b["hash_ids"], strict=False):
        if left != right:
            break
        equal += 1
    return equal * block_size
