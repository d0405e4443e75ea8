import asyncio
import json
from collections import Counter

import pytest
from asked_models import Asked, over_the_wire

from examples import scripted_model
from examples.deep_research import agent
from examples.deep_research.agent import (
    MOST_RESEARCHERS,
    MOST_TOPICS,
    RESEARCHER_STEPS,
    SUPERVISOR_STEPS,
    deep_research,
)
from examples.deep_research.script import ROLES
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

QUESTION = "How do flywheels and batteries compare?"


def role(request: ModelRequest) -> str:
    return ROLES[request.messages[0].content]


def research(asked: Asked) -> str:
    return asyncio.run(deep_research(asked, QUESTION))


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


@pytest.fixture(scope="module", params=[0, 1])
def played(request: pytest.FixtureRequest) -> tuple[Asked, str]:
    asked = Asked(scripted_model.answer, seed=request.param)
    return asked, research(asked)


def test_a_question_becomes_a_brief_findings_and_a_report(played: tuple[Asked, str]) -> None:
    asked, report = played
    roles = [role(request) for request in asked.requests]

    assert roles[:2] == ["brief", "supervisor"]
    assert roles[-1] == "report"
    assert Counter(roles)["compress"] >= 3
    assert report == asked.answers[-1].text.strip()
    assert "[flywheels]" in report


def test_the_writer_sees_the_question_the_brief_and_all_findings(played: tuple[Asked, str]) -> None:
    asked, _ = played
    given = asked.requests[-1].messages[1].content

    written = [
        said.text for request, said in zip(asked.requests, asked.answers, strict=True) if role(request) == "compress"
    ]
    assert given.startswith(f"Question: {QUESTION}\n\n{asked.answers[0].text}")
    assert all(findings in given for findings in written)


def test_a_researcher_knows_its_topic_only_and_the_supervisor_the_findings_only(played: tuple[Asked, str]) -> None:
    asked, _ = played

    topics = {request.messages[1].content for request in asked.requests if role(request) == "researcher"}
    *_, last = (request for request in asked.requests if role(request) == "supervisor")
    delegated = [json.loads(one.arguments)["topics"] for message in last.messages for one in message.tool_calls]
    assert topics == {topic for some in delegated for topic in some}
    assert {message.content[:6] for message in last.messages if message.role == "tool"} == {"Topic:"}


def test_researchers_of_one_delegation_work_at_the_same_time(played: tuple[Asked, str]) -> None:
    asked, _ = played
    first = [request.messages[1].content for request in asked.requests if role(request) == "researcher"][:3]

    assert len(set(first)) == 3


def test_a_model_that_only_talks_has_nothing_researched() -> None:
    asked = Asked(lambda request: Answer("Interesting."))

    assert research(asked) == ""
    assert [role(request) for request in asked.requests] == ["brief", *["supervisor"] * SUPERVISOR_STEPS]


def test_a_model_that_never_stops_is_stopped() -> None:
    def busy(request: ModelRequest) -> Answer:
        step = {"supervisor": call("delegate", topics=["a", "b"]), "researcher": call("search", query="water")}
        return Answer("Text.", tool_calls=tuple(one for of, one in step.items() if of == role(request)))

    asked = Asked(busy)

    assert research(asked) == "Text."
    counts = Counter(map(role, asked.requests))
    assert counts["researcher"] == 2 * SUPERVISOR_STEPS * RESEARCHER_STEPS
    assert counts["compress"] == 2 * SUPERVISOR_STEPS


def test_a_model_that_delegates_without_end_gets_no_more_researchers() -> None:
    many = tuple(call("delegate", topics=["a", "b", "c", "d", "e"]) for _ in range(9))
    asked = Asked(lambda request: Answer("Text.", tool_calls=many if role(request) == "supervisor" else ()))

    assert research(asked) == ""  # they looked for nothing
    assert Counter(map(role, asked.requests))["researcher"] == MOST_RESEARCHERS


@pytest.mark.parametrize(
    "wrong",
    [
        call("delegate", topics=[]),
        call("delegate", topics=["", " "]),
        call("delegate", topics=["x"] * (MOST_TOPICS + 1)),
        call("delegate", topics="x"),
        call("delegate"),
        call("search", query="x"),
        ToolCall("delegate", '{"topics": ["x'),
    ],
    ids=lambda one: one.arguments[:30],
)
def test_what_the_supervisor_gets_wrong_is_told_to_it(wrong: ToolCall) -> None:
    asked = Asked(lambda request: Answer(tool_calls=(wrong,) if role(request) == "supervisor" else ()))

    assert research(asked) == ""
    assert asked.requests[-1].messages[-1].content.startswith("error: ")
    assert "researcher" not in map(role, asked.requests)


def test_where_no_researcher_looks_for_anything_nothing_is_compressed_and_no_report_written() -> None:
    def idle(request: ModelRequest) -> Answer:
        if role(request) == "supervisor":
            done = any(message.role == "tool" for message in request.messages)
            return Answer(tool_calls=(call("finish", reason="") if done else call("delegate", topics=["x"]),))
        return Answer("" if role(request) == "researcher" else "Text.")

    asked = Asked(idle)

    assert research(asked) == ""
    assert [role(request) for request in asked.requests] == ["brief", "supervisor", "researcher", "supervisor"]
    assert asked.requests[-1].messages[-1].content == "Topic: x\n\nNothing."


def test_a_chatterer_ends_with_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert over_the_wire(agent, Answer("Interesting."), monkeypatch) == 1

    assert capsys.readouterr().err.startswith("there is no report: ")
