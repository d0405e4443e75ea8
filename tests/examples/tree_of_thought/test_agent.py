import asyncio
import json

import pytest
from asked_models import Asked

from examples.chat import Answer as Said
from examples.chat import ToolCall as Wanted
from examples.tree_of_thought import script
from examples.tree_of_thought.agent import JUDGE, Solver, number_in
from examples.tree_of_thought.tree import Candidate, Shape, Trail, to_be_tried
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

QUESTION = script.problems()[0].question


def solve(asked: Asked, shape: Shape | None = None) -> str:
    return asyncio.run(Solver(asked, QUESTION, shape or Shape()).solve())


def program(text: str) -> ToolCall:
    return ToolCall("calculate", json.dumps({"program": text}))


def kind(request: ModelRequest) -> str:
    """Return what a request is for."""
    if request.messages[0].content == JUDGE:
        return "judge"
    if len(request.messages) > 2:
        return "conclude"
    return "propose" if "Write candidate" in request.messages[1].content else "finish"


def by_kind(**said: Answer) -> Asked:
    """Return a model that says the same to all requests of a kind."""
    return Asked(lambda request: said[kind(request)])


def counts(asked: Asked) -> dict[str, int]:
    kinds = [kind(request) for request in asked.requests]
    return {one: kinds.count(one) for one in dict.fromkeys(kinds)}


def test_a_tree_that_is_never_solved_has_the_size_of_its_shape() -> None:
    model = by_kind(
        propose=Answer("I count.", tool_calls=(program("print(1)"),)),
        conclude=Answer("It is 1."),
        judge=Answer('{"score": 5}'),
        finish=Answer("ANSWER: 1"),
    )

    said = solve(model, Shape(depth=3, candidates=3, tried=2, kept=2))

    assert number_in(said) == 1
    assert counts(model) == {"propose": 3 + 6 + 6, "judge": 3 + 6 + 6, "conclude": 3, "finish": 1}


def test_each_different_program_is_run_once_up_to_a_number() -> None:
    def candidate(rank: int, *programs: str) -> Candidate:
        calls = {number: Wanted(str(number), "calculate", text) for number, text in enumerate(programs)}
        return Candidate(Trail(), rank, [], Said("", calls))

    first, talk, same, other, one_more = (
        candidate(2, "a"),
        candidate(1),
        candidate(3, "a"),
        candidate(1, "b"),
        candidate(4, "c"),
    )

    tried = to_be_tried([first, talk, same, other, one_more], 2)

    assert tried == [other, first]


def test_a_solved_candidate_ends_the_tree_and_the_best_one_is_answered_from() -> None:
    def model(request: ModelRequest) -> Answer:
        asked = request.messages[1].content
        match kind(request):
            case "propose":
                return Answer(f"thought {asked.partition('Write candidate ')[2][0]}")
            case "judge":
                best = "thought 2" in asked
                return Answer(json.dumps({"score": 9 if best else 3, "solved": best}))
            case _:
                return Answer(f"ANSWER: {'2' if 'thought 2' in asked else '0'}")

    asked = Asked(model)

    assert solve(asked) == "ANSWER: 2"
    assert len(asked.requests) == 3 + 3 + 1


def test_the_next_depth_is_told_what_was_found_and_nothing_of_what_was_pruned() -> None:
    def model(request: ModelRequest) -> Answer:
        asked = request.messages[1].content
        match kind(request):
            case "propose":
                rank = asked.partition("Write candidate ")[2][0]
                return Answer(f"thought {rank}", tool_calls=(program(f"print({rank} * 111)"),))
            case "conclude":
                return Answer(f"printed {request.messages[-1].content.splitlines()[-1]}")
            case "judge":
                return Answer('{"score": 8}' if "printed 333" in asked else '{"score": 1}')
            case _:
                return Answer("ANSWER: 333")

    asked = Asked(model)
    solve(asked, Shape(depth=2, kept=1))

    second = [request.messages[1].content for request in asked.requests if kind(request) == "propose"][3:]
    assert len(second) == 3
    assert all("1. thought 3\nprinted 333" in content for content in second)
    assert not any("thought 1" in content or "thought 2" in content for content in second)


@pytest.mark.parametrize(
    "said",
    [
        Answer(""),
        Answer("The weather is fine."),
        Answer('{"score": "high"}'),
        Answer('{"score": 1e9}', tool_calls=(ToolCall("fly", "}{"),)),
        Answer("", tool_calls=(ToolCall("calculate", "7"), ToolCall("calculate", '{"code": "1"}'))),
    ],
    ids=["nothing", "words", "bad verdict", "unknown tool", "bad arguments"],
)
def test_a_poor_model_comes_to_an_end(said: Answer) -> None:
    asked = Asked(lambda request: said)

    text = solve(asked)

    assert number_in(text) is None
    assert len(asked.requests) <= 15 + 9 + 15 + 1


def test_a_model_that_says_nothing_is_not_asked_for_an_answer() -> None:
    asked = Asked(lambda request: Answer(""))

    assert solve(asked) == ""
    assert counts(asked) == {"propose": 3}


@pytest.mark.parametrize(
    ("text", "number"),
    [("ANSWER: 12", 12), ("ANSWER: 1\nno, ANSWER:  204.", 204), ("ANSWER: none", None), ("204", None), ("", None)],
)
def test_the_answer_is_the_last_number_that_is_called_so(text: str, number: int | None) -> None:
    assert number_in(text) == number
