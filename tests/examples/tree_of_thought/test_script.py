import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from asked_models import Asked

from examples.tasks import load_tasks
from examples.tree_of_thought import script
from examples.tree_of_thought.agent import Solver, number_in
from examples.tree_of_thought.tree import Shape
from rotoscope.replayer.simulator.model import ModelRequest

TASKS = load_tasks(script.HERE)


def played(task: int, seed: int) -> tuple[Asked, str]:
    """Solve a task with the script as the model."""
    asked = Asked(script.answer, seed)
    return asked, asyncio.run(Solver(asked, TASKS[task]["question"], Shape()).solve())


@pytest.fixture(scope="module")
def model() -> Asked:
    return played(3, 4)[0]


@pytest.mark.parametrize("task", TASKS, ids=range(1, 31))
def test_each_program_counts_the_answer(task: dict[str, str]) -> None:
    program: dict[str, Any] = {}

    exec(task["program"], program)  # noqa: S102 - it is one of ours

    assert int(program["count"](int(task["size"]))) == int(task["answer"])
    assert 0 <= int(task["answer"]) <= 999


def test_no_two_tasks_are_the_same() -> None:
    assert len({task["question"] for task in TASKS}) == 30


def test_the_same_seed_and_conversation_give_the_same_answer(model: Asked) -> None:
    assert [script.answer(request) for request in reversed(model.requests)][::-1] == model.answers


def test_another_seed_gives_other_answers(model: Asked) -> None:
    assert [script.answer(replace(request, seed=5)) for request in model.requests] != model.answers


def test_all_conversations_are_its_own(model: Asked) -> None:
    assert all(map(script.plays, model.requests))
    other = replace(model.requests[0].messages[0], content="You are a pirate.")
    assert not script.plays(replace(model.requests[0], messages=(other, *model.requests[0].messages[1:])))


def test_most_runs_find_the_answer_and_a_confirmed_one_ends_the_tree() -> None:
    right, lengths = 0, set()
    for number in range(6):
        asked, said = played(number, seed=number)
        right += number_in(said) == int(TASKS[number]["answer"])
        lengths.add(len(asked.requests))

    assert right >= 4
    assert min(lengths) < 30 < max(lengths)


def last(request: ModelRequest) -> str:
    return request.messages[-1].content


def test_what_is_said_of_a_program_is_what_it_printed(model: Asked) -> None:
    concluded = [(last(x), said.text) for x, said in zip(model.requests, model.answers, strict=True) if is_result(x)]

    assert concluded
    for printed, text in concluded:
        assert set(re.findall(r"count\(\d+\) = \d+", printed)) == set(re.findall(r"count\(\d+\) = \d+", text))


def is_result(request: ModelRequest) -> bool:
    return request.messages[-1].role == "tool"


def test_a_program_that_fails_proves_nothing(model: Asked) -> None:
    request = next(filter(is_result, model.requests))
    failed = replace(request.messages[-1], content="exit status 1\nMemoryError")

    said = script.answer(replace(request, messages=(*request.messages[:-1], failed)))

    assert "nothing follows" in said.text
