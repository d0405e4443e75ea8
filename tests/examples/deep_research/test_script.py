import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from asked_models import Asked

from examples import scripted_model
from examples.corpus.tools import LIBRARY
from examples.deep_research.agent import HERE, deep_research
from examples.deep_research.script import ROLES
from examples.tasks import load_tasks
from rotoscope.replayer.simulator.model import Answer, ModelRequest

TASKS = load_tasks(HERE)


@pytest.fixture(scope="module")
def runs() -> list[Asked]:
    """Play some tasks, each with a seed of its own."""
    played = []
    for number in range(0, 30, 3):
        asked = Asked(scripted_model.answer, seed=number)
        asyncio.run(deep_research(asked, TASKS[number]["question"]))
        played.append(asked)
    return played


def role(request: ModelRequest) -> str:
    return ROLES[request.messages[0].content]


def test_there_are_thirty_questions() -> None:
    assert len({task["question"] for task in TASKS}) == 30


def test_nothing_is_kept_between_answers(runs: list[Asked]) -> None:
    again = [scripted_model.answer(request) for request in reversed(runs[0].requests)]

    assert again[::-1] == runs[0].answers


def test_another_seed_gives_other_answers_to_the_same_conversation(runs: list[Asked]) -> None:
    others = [scripted_model.answer(replace(request, seed=99)) for request in runs[0].requests]

    assert others != runs[0].answers


def test_a_run_is_about_as_long_as_that_of_a_real_agent(runs: list[Asked]) -> None:
    assert all(15 <= len(asked.answers) <= 50 for asked in runs)
    assert len({len(asked.answers) for asked in runs}) > 3


def test_some_supervisors_delegate_once_more_what_was_left_open(runs: list[Asked]) -> None:
    rounds = Counter(
        sum(call.name == "delegate" for said in asked.answers for call in said.tool_calls) for asked in runs
    )

    assert set(rounds) == {1, 2}


def test_researchers_read_only_what_a_search_has_shown_them_and_nothing_twice(runs: list[Asked]) -> None:
    for asked in runs:
        for request in (request for request in asked.requests if role(request) == "researcher"):
            shown: set[str] = set()
            read: list[str] = []
            for message in request.messages[2:]:
                names = [json.loads(call.arguments).get("document") for call in message.tool_calls]
                assert {name for name in names if name} <= shown
                read += [name for name in names if name]
                shown |= set(re.findall(r"^\[([a-z-]+)\]", message.content, re.MULTILINE))
            assert len(read) == len(set(read))


def test_what_is_cited_stands_in_the_document_that_is_named(runs: list[Asked]) -> None:
    texts = {document.name: " ".join(document.text.split()) for document in LIBRARY.documents}

    for asked in runs:
        cited = re.findall(r"(?:^|(?<=\] ))([^\[\]\n]+) \[([a-z-]+)\]", asked.answers[-1].text, re.MULTILINE)
        quoted = [(said, name) for said, name in cited if not said.startswith(("In short: ", "The sources are short"))]
        assert len(quoted) > 10
        assert [said for said, name in quoted if said not in texts[name]] == []


@pytest.mark.parametrize("at", ["brief", "compress", "researcher"])
def test_a_role_that_says_nothing_of_use_does_not_stop_the_others(at: str) -> None:
    asked = Asked(lambda request: Answer("Well.") if role(request) == at else scripted_model.answer(request))

    asyncio.run(deep_research(asked, TASKS[0]["question"]))

    assert len(asked.answers) < 60
