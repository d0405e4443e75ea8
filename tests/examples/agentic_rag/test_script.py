import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
from asked_models import Asked

from examples.agentic_rag import script
from examples.agentic_rag.agent import Researcher, verdict
from examples.agentic_rag.prompts import CHECK, GRADE, PLAN
from examples.agentic_rag.tools import library
from examples.tasks import load_tasks
from rotoscope.replayer.simulator.model import Message, ModelRequest

TASKS = load_tasks(script.HERE)


def played(task: int, seed: int) -> tuple[Asked, Researcher, str]:
    """Answer the question of a task with the script as the model."""
    asked = Asked(script.answer, seed)
    researcher = Researcher(asked, TASKS[task]["question"], 3)
    return asked, researcher, asyncio.run(researcher.work())


@pytest.fixture(scope="module")
def model() -> Asked:
    return played(0, 1)[0]


@pytest.mark.parametrize("task", TASKS, ids=range(1, 31))
def test_what_is_known_of_each_question_stands_in_the_documents(task: dict[str, str]) -> None:
    texts = [" ".join(document.text.split()).lower() for document in library().documents]

    for part in task["answer"].lower().split("; "):
        assert any(part in text for text in texts), part
        assert part not in task["question"].lower()


def test_no_two_tasks_are_the_same() -> None:
    assert len({task["question"] for task in TASKS}) == 30


def test_the_same_seed_and_conversation_give_the_same_answer(model: Asked) -> None:
    assert [script.answer(request) for request in reversed(model.requests)][::-1] == model.answers


def test_another_seed_gives_other_answers(model: Asked) -> None:
    assert [script.answer(replace(request, seed=9)) for request in model.requests] != model.answers


def test_all_conversations_are_its_own(model: Asked) -> None:
    assert all(map(script.plays, model.requests))
    other = replace(model.requests[0].messages[0], content="You are a pirate.")
    assert not script.plays(replace(model.requests[0], messages=(other, *model.requests[0].messages[1:])))


def test_most_answers_are_right_and_some_runs_look_again() -> None:
    right, rounds = 0, set()
    for number in range(8):
        asked, researcher, said = played(number, seed=number + 1)
        right += not verdict(said, researcher.documents, TASKS[number]["answer"])
        rounds.add(sum(request.messages[-1].content == CHECK for request in asked.requests))

    assert right >= 6
    assert min(rounds) == 1 < max(rounds)


def request(*contents: str) -> ModelRequest:
    system, *others = contents
    roles = ("user", "assistant") * len(others)
    messages = (Message(role, content) for role, content in zip(roles, others, strict=False))
    return ModelRequest(np.empty(0, np.uint32), messages=(Message("system", system), *messages))


def test_queries_are_words_of_the_question() -> None:
    said = json.loads(script.answer(request(PLAN, "The question:\nHow long was the longest aqueduct of Rome?")).text)

    assert said["queries"]
    assert set(" ".join(said["queries"]).split()) <= {"long", "longest", "aqueduct", "rome"}


@pytest.mark.parametrize(("text", "relevant"), [("The longest aqueduct of Rome.", True), ("Bread is baked.", False)])
def test_a_document_is_graded_by_its_words(text: str, relevant: bool) -> None:
    opening = f"The question:\nHow long was the longest aqueduct of Rome?\n\nThe document x:\n{text}"

    assert json.loads(script.answer(request(GRADE, opening)).text)["relevant"] is relevant
