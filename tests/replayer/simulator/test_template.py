from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.simulator.model import Answer, Message, ModelRequest, ToolCall
from rotoscope.replayer.simulator.output import Limits, plan_output
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.tokenizer import encode

TEXTS = st.text("ab (\n日", max_size=12)
ANSWERS = st.builds(
    Answer,
    text=TEXTS,
    reasoning=st.just("") | TEXTS,
    tool_calls=st.lists(st.builds(ToolCall, st.sampled_from(["ls", "cat"]), TEXTS), max_size=3).map(tuple),
)
HISTORIES = st.lists(st.builds(Message, st.sampled_from(["user", "assistant", "tool"]), TEXTS), max_size=4)
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}


def test_messages_stand_between_control_tokens() -> None:
    prompt = render([Message("system", "Be brief."), Message("user", "Hi")])

    assert prompt == (
        "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|>Hi<|im_end|>"
        "<|im_start|>assistant<|im_sep|>"
    )


def test_generation_prompt_can_be_left_out() -> None:
    assert render([Message("user", "Hi")], add_generation_prompt=False).endswith("Hi<|im_end|>")


def test_tools_stand_in_the_system_message() -> None:
    prompt = render([Message("system", "Be brief."), Message("user", "Hi")], [TOOL])

    assert prompt.startswith('<|im_start|>system<|im_sep|>Be brief.\n\n# Tools\n{"type":"function"')
    assert prompt.count("<|im_start|>system") == 1


def test_tools_make_a_system_message_where_there_is_none() -> None:
    assert render([Message("user", "Hi")], [TOOL]).startswith("<|im_start|>system<|im_sep|># Tools\n")


def test_a_developer_is_a_system() -> None:
    assert render([Message("developer", "x")]) == render([Message("system", "x")])


@given(HISTORIES, ANSWERS, HISTORIES)
def test_an_answer_in_history_has_the_tokens_that_were_generated(
    history: list[Message], answer: Answer, later: list[Message]
) -> None:
    prompt = encode(render(history)).tolist()
    output = plan_output(answer, ModelRequest(encode("")), Limits(max_tokens=1000))
    said = Message("assistant", answer.text, answer.tool_calls)
    after = encode(render([*history, said, *later])).tolist()

    kept = output.ids.tolist()[output.reasoning_tokens :]
    assert after[: len(prompt) + len(kept)] == prompt + kept
