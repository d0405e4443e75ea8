from __future__ import annotations

import numpy as np
import pytest

from rotoscope.replayer.simulator.blocks import Block, block_text, blocks_of, steps
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall
from rotoscope.replayer.simulator.output import Limits, Output, plan_output

FULL = Answer(text="I look.", reasoning="Where?", tool_calls=(ToolCall("ls", '{"path": "."}'), ToolCall("cat", "")))


def planned(answer: Answer, max_tokens: int = 1000) -> Output:
    request = ModelRequest(np.array([300], np.uint32))
    return plan_output(answer, request, Limits(max_tokens))


def test_an_output_is_reasoning_then_text_then_each_tool_call() -> None:
    output = planned(FULL)

    assert blocks_of(output) == (
        Block(0, "reasoning"),
        Block(1, "text"),
        Block(2, "tool", 0),
        Block(3, "tool", 1),
    )
    assert [block_text(output, block) for block in blocks_of(output)] == ["Where?", "I look.", '{"path": "."}', ""]


def test_a_tool_call_whose_name_is_cut_is_none() -> None:
    output = planned(Answer(tool_calls=(ToolCall("list_files", "{}"),)), max_tokens=2)

    assert blocks_of(output) == ()


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_steps_open_fill_and_close_each_block_however_tokens_come(size: int) -> None:
    output = planned(FULL)
    count = len(output.pieces)
    runs = [(first, min(first + size, count)) for first in range(0, count, size)]

    taken = [step for first, end in runs for step in steps(output, blocks_of(output), first, end)]

    assert [(step, block.index) for step, block, _ in taken if step != "piece"] == [
        (step, index) for index in range(4) for step in ("open", "close")
    ]
    for block in blocks_of(output):
        assert "".join(text for _, one, text in taken if one == block) == block_text(output, block)
