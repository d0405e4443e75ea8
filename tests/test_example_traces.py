"""How the example traces are made: an answer is counted by a real tokenizer and stays what it was."""

from __future__ import annotations

import numpy as np
import pytest
from clients.scripted_server import Script
from tiktoken import Encoding

from examples.react.ideas import STANDING
from rotoscope.replayer.simulator.model import Answer, Message, ModelRequest, ToolCall
from rotoscope.replayer.simulator.output import Limits, plan_output
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.tokenizer import CONTROLS
from rotoscope.traces.offline_encodings import load_encoding
from scripts.example_traces.__main__ import check_names
from scripts.example_traces.counting import ids_of, recounted
from scripts.example_traces.hands import HANDS, tool
from scripts.example_traces.plays import LOOK, SUMMARY, TITLE, with_sub_agents

ANSWER = Answer(text="Zo één → 🎉 done.", reasoning="First this.", tool_calls=(ToolCall("look", '{"at":"é🎉"}'),))
NOBODY = ModelRequest(np.empty(0, np.uint32))


@pytest.fixture(scope="module")
def o200k() -> Encoding:
    return load_encoding("o200k_base")


def test_an_answer_keeps_its_text_in_other_tokens() -> None:
    planned = plan_output(ANSWER, NOBODY, Limits(1000))
    counted = recounted(planned)

    for channel in ("text", "reasoning", "tool_name", "tool_arguments"):
        assert counted.text(channel) == planned.text(channel) != ""
    assert (counted.tools, counted.finish_reason) == (1, "tool_calls")
    assert len(counted.ids) < len(planned.ids)


def test_an_answer_has_the_tokens_of_its_texts_and_one_for_each_mark(o200k: Encoding) -> None:
    counted = recounted(plan_output(ANSWER, NOBODY, Limits(1000)))

    texts = [ANSWER.text, ANSWER.reasoning, "look", '{"at":"é🎉"}']
    marks = 2 + 3 + 1  # around thinking, around the tool call and within it, the end
    assert len(counted.ids) == sum(len(o200k.encode(text)) for text in texts) + marks
    assert counted.reasoning_tokens == len(o200k.encode(ANSWER.reasoning)) + 2


def test_an_answer_that_is_sent_back_has_the_tokens_that_it_was_generated_with() -> None:
    said = Answer(text=ANSWER.text, tool_calls=ANSWER.tool_calls)
    asked = (Message("user", "Look."),)
    prompt = ids_of(render(asked))
    stream = np.concatenate([prompt, recounted(plan_output(said, NOBODY, Limits(1000))).ids])

    again = ids_of(render((*asked, Message("assistant", said.text, said.tool_calls))))
    assert again[: len(stream)].tolist() == stream.tolist()


def test_each_mark_is_one_token_and_none_of_the_encoding(o200k: Encoding) -> None:
    ids = ids_of("".join(CONTROLS))

    assert len(set(ids.tolist())) == len(CONTROLS)
    assert int(min(ids[1:])) >= o200k.n_vocab


@pytest.fixture
def programmer(tmp_path_factory: pytest.TempPathFactory) -> Script:
    return with_sub_agents(HANDS["opencode"], tmp_path_factory.mktemp("project"))


def request(*messages: Message, tools: int = 1) -> ModelRequest:
    return ModelRequest(np.empty(0, np.uint32), messages, ({"type": "function"},) * tools)


def test_a_sub_agent_is_told_by_its_task(programmer: Script) -> None:
    task = Message("user", LOOK.format("sharing"))
    asked = Message("assistant", "", (tool("read"),))

    first, second = programmer(request(task)), programmer(request(task, asked, Message("tool", "...")))
    last = programmer(request(task, *(asked, Message("tool", "...")) * 2))

    assert [len(first.tool_calls), len(second.tool_calls), len(last.tool_calls)] == [2, 2, 0]
    assert next(fault.cause for fault in STANDING if fault.module == "sharing") in last.text


def test_who_offers_no_tools_gets_a_title_or_a_summary(programmer: Script) -> None:
    assert programmer(request(Message("user", "Repair it."), tools=0)).text == TITLE
    assert programmer(request(Message("user", "Repair it. " * 1000), tools=0)).text == SUMMARY


def test_a_name_that_is_in_a_trace_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("traces") / "run.trace.json"
    names = ['{"models": {"0": "some-model"}, "tools": {"tool01": "agent"}, "branches": {"0.0": ["reviewer"]}}']

    path.write_text('{"kind": "agent", "tool_name": "tool01"}')
    check_names([path], names)
    path.write_text('{"kind": "agent", "tool_name": "reviewer"}')
    with pytest.raises(AssertionError, match="reviewer"):
        check_names([path], names)
