from __future__ import annotations

from typing import Any

import pytest
from event_loops import in_event_loop
from simulated import simulated

from rotoscope.replayer.simulator.model import Answer
from rotoscope.replayer.simulator.tokenizer import END, control_id, decode

PATH = "/generate"


def body(ids: list[int], **sampling: Any) -> dict[str, Any]:
    return {"input_ids": ids, "sampling_params": sampling}


@in_event_loop
async def test_token_ids_go_in_and_come_out_with_their_counts() -> None:
    async with simulated(profile="token") as client:
        sample = body([300, 301, 302], max_new_tokens=5, min_new_tokens=5, ignore_eos=True)
        await client.ask(PATH, sample)
        answer = await client.ask(PATH, sample)

    assert len(answer["output_ids"]) == 5
    assert answer["text"] == decode(answer["output_ids"])
    meta = answer["meta_info"]
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == (3, 5, 2)
    assert meta["finish_reason"] == {"type": "length", "length": 5}


@in_event_loop
async def test_each_event_holds_all_ids_so_far() -> None:
    async with simulated() as client:
        sample = body([300, 301], max_new_tokens=4, ignore_eos=True)
        whole = await client.ask(PATH, sample)
        events = await client.stream(PATH, sample)

    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert [len(event["output_ids"]) for event in events] == counts
    assert [event["meta_info"]["finish_reason"] for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1]["output_ids"] == whole["output_ids"]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 4}


@in_event_loop
async def test_an_answer_that_ends_by_itself_names_the_token() -> None:
    async with simulated(Answer(text="Hi.")) as client:
        answer = await client.ask(PATH, {"text": "Hi"})

    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": control_id(END)}


@pytest.mark.parametrize(
    "wrong", [{}, {"input_ids": []}, {"input_ids": ["a"]}, {"input_ids": [[300]]}, body([300], max_new_tokens=0)]
)
@in_event_loop
async def test_what_cannot_be_answered_is_refused(wrong: dict[str, Any]) -> None:
    async with simulated() as client:
        assert (await client.ask(PATH, wrong, status=400))["error"]["message"]
