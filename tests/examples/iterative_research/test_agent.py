import asyncio
import json

import pytest
from asked_models import Asked, over_the_wire

from examples import scripted_model
from examples.iterative_research import agent
from examples.iterative_research.agent import OBSERVATION_LIMIT, REPORT_LIMIT, Memory, iterative_research
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

QUESTION = "How do flywheels and batteries compare?"


def research(asked: Asked, rounds: int = 16) -> Memory:
    return asyncio.run(iterative_research(asked, QUESTION, rounds=rounds))


def prompts(asked: Asked) -> list[str]:
    return [request.messages[1].content for request in asked.requests]


@pytest.fixture(scope="module", params=[0, 1])
def played(request: pytest.FixtureRequest) -> tuple[Asked, Memory]:
    asked = Asked(scripted_model.answer, seed=request.param)
    return asked, research(asked)


def test_a_question_is_answered_from_what_was_read(played: tuple[Asked, Memory]) -> None:
    asked, memory = played

    assert memory.report == asked.answers[-1].text
    assert "[flywheels]" in memory.report
    assert "Read:" not in memory.report
    assert 8 <= len(asked.answers) <= 14


def test_each_round_sees_the_last_report_call_and_result_and_nothing_else(played: tuple[Asked, Memory]) -> None:
    asked, _ = played

    for number, (before, request) in enumerate(zip(asked.answers[:-1], asked.requests[1:], strict=True), start=2):
        (call,) = before.tool_calls
        system, user = request.messages
        assert (system.role, user.role) == ("system", "user")
        assert user.content.startswith(
            f"Round {number} of 16.\n\n# Question\n\n{QUESTION}\n\n# Report so far\n\n{before.text}\n\n"
            f"# Last call\n\n{call.name} {call.arguments}\n\n# What it returned\n\n"
        )


def test_in_the_last_round_there_are_no_tools() -> None:
    asked = Asked(scripted_model.answer)

    memory = research(asked, rounds=3)

    assert [len(request.tools) for request in asked.requests] == [2, 2, 0]
    assert "this is the last one" in prompts(asked)[-1]
    assert memory.report == asked.answers[-1].text


def test_the_prompt_has_a_bound_whatever_the_model_writes() -> None:
    def wordy(request: ModelRequest) -> Answer:
        return Answer("word " * 10_000, tool_calls=(ToolCall("read", json.dumps({"document": "x" * 10_000})),))

    asked = Asked(wordy)

    research(asked)

    assert len(asked.requests) == 16
    assert max(map(len, prompts(asked))) < REPORT_LIMIT + 2 * OBSERVATION_LIMIT + 1_000


def test_of_several_calls_the_first_is_run() -> None:
    def eager(request: ModelRequest) -> Answer:
        calls = [ToolCall("search", json.dumps({"query": query})) for query in ("flywheel", "lime")]
        return Answer("Report.", tool_calls=tuple(calls))

    asked = Asked(eager)

    memory = research(asked, rounds=2)

    assert memory.action == 'search {"query": "flywheel"}'
    assert "[flywheels]" in memory.observation
    assert "[lime-mortar]" not in memory.observation


def test_an_answer_without_text_leaves_the_report_as_it_was() -> None:
    said = iter(["First report.", "", ""])

    memory = research(
        Asked(lambda request: Answer(next(said), tool_calls=(ToolCall("search", '{"query": "flywheel"}'),))), rounds=3
    )

    assert memory.report == "First report."


def test_a_model_that_calls_nothing_has_looked_nothing_up() -> None:
    asked = Asked(lambda request: Answer("All is well."))

    memory = research(asked)

    assert len(asked.requests) == 1
    assert memory == Memory(QUESTION, report="All is well.")


@pytest.mark.parametrize(
    "wrong", [ToolCall("fly", "{}"), ToolCall("search", "}{"), ToolCall("read", '{"document": 1}')]
)
def test_what_the_model_gets_wrong_it_sees_in_the_next_round(wrong: ToolCall) -> None:
    asked = Asked(lambda request: Answer("Report.", tool_calls=(wrong,)))

    research(asked, rounds=2)

    assert "# What it returned\n\nerror: " in prompts(asked)[1]


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        (Answer("Interesting."), "looked nothing up"),
        (Answer(tool_calls=(ToolCall("search", '{"query": "lime"}'),)), "wrote no report"),
    ],
)
def test_what_is_no_result_ends_with_a_message(
    said: Answer, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert over_the_wire(agent, said, monkeypatch, "--rounds", "2") == 1

    assert capsys.readouterr().err == f"that is no result: the model {missing}\n"


def test_a_result_is_printed_streamed_or_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert over_the_wire(agent, scripted_model.answer, monkeypatch, "--rounds", "2", "--seed", "5") == 0
    streamed = capsys.readouterr().out
    assert over_the_wire(agent, scripted_model.answer, monkeypatch, "--rounds", "2", "--seed", "5", "--no-stream") == 0

    assert streamed == capsys.readouterr().out
    assert "# How has longitude been found" in streamed
