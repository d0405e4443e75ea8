import asyncio
import json
from collections.abc import Sequence

import pytest
from asked_models import Asked

from examples.agentic_rag.agent import Researcher, verdict
from examples.agentic_rag.prompts import CHECK, FINISH, GRADE, PLAN
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

QUESTION = "How long was the longest aqueduct of Rome, and how wide is the lens of a lighthouse?"


def kind(request: ModelRequest) -> str:
    """Return what a request is for."""
    system, last = request.messages[0].content, request.messages[-1].content
    return {PLAN: "plan", GRADE: "grade"}.get(system) or {CHECK: "check", FINISH: "finish"}.get(last, "answer")


def by_kind(**said: Sequence[str]) -> Asked:
    """Return a model that says one after the other to requests of a kind, the last one again and again."""
    left = {one: list(texts) for one, texts in said.items()}

    def model(request: ModelRequest) -> Answer:
        texts = left[kind(request)]
        return Answer(texts.pop(0) if len(texts) > 1 else texts[0])

    return Asked(model)


def work(asked: Asked, rounds: int = 3) -> tuple[Researcher, str]:
    researcher = Researcher(asked, QUESTION, rounds)
    return researcher, asyncio.run(researcher.work())


def kinds(asked: Asked) -> list[str]:
    return [kind(request) for request in asked.requests]


def queries(*texts: str) -> str:
    return json.dumps({"queries": texts})


def test_it_looks_again_until_the_check_is_content() -> None:
    asked = by_kind(
        plan=[queries("aqueduct rome longest")],
        grade=['{"relevant": true}'],
        answer=["Ninety kilometres [aqueducts]."],
        check=[
            json.dumps({"supported": True, "enough": False, "queries": ["lens lighthouse"]}),
            json.dumps({"supported": True, "enough": True, "queries": ["anything"]}),
        ],
        finish=["Ninety kilometres [aqueducts]. Of the width nothing is said [lighthouses]."],
    )

    researcher, said = work(asked)

    assert verdict(said, researcher.documents, "ninety kilometres") == ""
    assert [one for one in kinds(asked) if one != "grade"] == ["plan", "answer", "check", "answer", "check", "finish"]
    assert {"aqueducts", "lighthouses"} <= set(researcher.documents)
    assert researcher.tried == {"aqueduct rome longest", "lens lighthouse"}


def test_documents_that_do_not_help_are_left_out_and_none_is_graded_twice() -> None:
    asked = by_kind(
        plan=[queries("aqueduct", "aqueduct rome")],
        grade=['{"relevant": false}'],
        answer=["Nothing."],
        check=[json.dumps({"queries": ["aqueduct siphon"]}), json.dumps({"queries": ["aqueduct"]})],
        finish=["The documents do not say it."],
    )

    researcher, said = work(asked)

    assert researcher.documents == {}
    assert kinds(asked).count("grade") == len(researcher.seen)
    assert kinds(asked).count("answer") == 2  # the third round would only repeat a query
    assert verdict(said, researcher.documents, "x") == "nothing is cited"


def test_documents_stand_in_the_order_in_which_they_were_found() -> None:
    asked = by_kind(
        plan=[queries("aqueduct rome longest")],
        grade=['{"relevant": true}'],
        answer=["So."],
        check=[queries("lens lighthouse"), "{}"],
        finish=["So [aqueducts]."],
    )
    work(asked)

    first, second = (request.messages[1].content for request in asked.requests if kind(request) == "answer")
    assert second.startswith(first)
    assert len(second) > len(first)


def test_no_more_rounds_than_allowed() -> None:
    many = iter(range(1000))
    asked = Asked(lambda request: Answer(queries(f"water {next(many)}")))

    work(asked, rounds=2)

    assert kinds(asked).count("answer") == kinds(asked).count("check") == 2


@pytest.mark.parametrize(
    "said",
    [
        Answer(""),
        Answer("The weather is fine."),
        Answer('{"queries": "water", "relevant": "who knows"}'),
        Answer('{"queries": ["", "  "], "supported": true, "enough": true}'),
        Answer("", tool_calls=(ToolCall("fly", "}{"),)),
    ],
    ids=["nothing", "words", "bad fields", "empty queries", "unknown tool"],
)
def test_a_poor_model_comes_to_an_end_and_the_question_itself_is_looked_for(said: Answer) -> None:
    asked = Asked(lambda request: said)

    researcher, text = work(asked)

    assert researcher.tried == {QUESTION}
    assert [one for one in kinds(asked) if one != "grade"] == ["plan", "answer", "check", "finish"]
    assert verdict(text, researcher.documents, "ninety kilometres") in ("the model says nothing", "nothing is cited")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("It is 7 [wells]. And 8.", ""),
        ("  ", "the model says nothing"),
        ("It is 7 and 8.", "nothing is cited"),
        ("It is 7 and 8 [wells], [moon-base].", "what is cited was not read: moon-base"),
        ("It is 7 [wells].", "the answer lacks: 8"),
    ],
)
def test_an_answer_has_to_be_right_and_to_cite_what_was_read(answer: str, told: str) -> None:
    assert verdict(answer, {"wells": "text", "tides": "text"}, "7; 8") == told
