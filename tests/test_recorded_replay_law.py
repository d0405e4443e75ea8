"""What is recorded of a replay is what was replayed: prompts of token ids and their outputs, on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from completion_server import DONE, serving_completions, stream, token_event, usage_event
from conversations import conversations
from hypothesis import given, settings
from loopback import recording
from numpy.typing import NDArray

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import Gaps
from rotoscope.traces import Call, Forest, Trace
from rotoscope.traces.formats.recognise import open_trace

Ids = NDArray[np.uint32]


@dataclass
class Streams:
    """Answer at once, and keep every prompt with the output behind it."""

    returns_ids: bool
    prompts: list[Ids] = field(default_factory=list)
    outputs: list[Ids] = field(default_factory=list)

    async def answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        number, tokens = len(self.prompts), body["max_tokens"]
        ids = [5_000 + (7 * number + place) % 20_000 for place in range(tokens)]
        self.prompts.append(np.array(body["prompt"], np.uint32))
        self.outputs.append(np.array(ids, np.uint32))
        answered = token_event(*ids, finish_reason="length") if self.returns_ids else token_event(token_ids=None)
        return await stream(request, [answered, usage_event(len(body["prompt"]), tokens), DONE])


async def recorded_replay(trace: Trace, folder: Path, *, returns_ids: bool) -> tuple[list[Call], Streams]:
    """Replay a trace through a gateway; return the calls that were recorded, and what they truly were.

    The few requests by which the replayer tries the server are among them.
    """
    streams = Streams(returns_ids)
    async with serving_completions(streams.answer) as server, recording(server.url, folder / "journal") as gateway:
        options = ReplayOptions(url=gateway.origin, api="completions", gaps=Gaps(scale=0), folder=folder / "results")
        summary = await replay_async([trace], options)
        calls = await gateway.calls()
    assert summary.is_complete
    return calls, streams


def common(a: Ids, b: Ids) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length


def check(calls: Sequence[Call], streams: Streams) -> None:
    """Compare what a later prompt shares with each earlier stream, its output included where its ids came."""
    forest = Forest((), calls)
    assert [call.prompt_tokens for call in calls] == [len(prompt) for prompt in streams.prompts]
    outputs = streams.outputs if streams.returns_ids else [np.empty(0, np.uint32)] * len(calls)
    whole = [np.concatenate(both) for both in zip(streams.prompts, outputs, strict=True)]
    for a, b in combinations(range(len(calls)), 2):
        stream_a = whole[a]
        true = common(stream_a, streams.prompts[b])
        assert min(forest.common_prefix(a, b), len(streams.prompts[b]), len(stream_a)) == true


@settings(max_examples=12)
@given(conversations())
def test_a_replay_of_a_conversation_is_recorded_as_it_was_sent(trace: Trace) -> None:
    with TemporaryDirectory() as folder:
        calls, streams = asyncio.run(recorded_replay(trace, Path(folder), returns_ids=True))

    check(calls, streams)
    assert all(call.prefix.least == call.prefix.tokens for call in calls)


@pytest.mark.parametrize("returns_ids", [True, False], ids=["server ids", "no ids"])
def test_a_replay_of_a_published_trace_is_recorded_as_it_was_sent(
    returns_ids: bool, data_dir: Path, tmp_path: Path
) -> None:
    trace = open_trace(data_dir / "weka" / "trace_0707.json")

    calls, streams = asyncio.run(recorded_replay(trace, tmp_path, returns_ids=returns_ids))

    check(calls, streams)
    assert len(calls) > len(list(trace.calls()))
