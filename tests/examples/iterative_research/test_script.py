import asyncio
import re
from dataclasses import replace

import pytest
from asked_models import Asked

from examples import scripted_model
from examples.corpus.tools import LIBRARY
from examples.iterative_research.agent import HERE, REPORT_LIMIT, iterative_research
from examples.iterative_research.script import CITED, line
from examples.tasks import load_tasks
from rotoscope.replayer.simulator.model import Answer

TASKS = load_tasks(HERE)


@pytest.fixture(scope="module")
def runs() -> list[Asked]:
    """Play some tasks, each with a seed of its own."""
    played = []
    for number in range(0, 30, 3):
        asked = Asked(scripted_model.answer, seed=number)
        asyncio.run(iterative_research(asked, TASKS[number]["question"], rounds=16))
        played.append(asked)
    return played


def test_there_are_thirty_questions() -> None:
    assert len({task["question"] for task in TASKS}) == 30


def test_nothing_is_kept_between_answers(runs: list[Asked]) -> None:
    again = [scripted_model.answer(request) for request in reversed(runs[0].requests)]

    assert again[::-1] == runs[0].answers


def test_another_seed_gives_other_answers_to_the_same_conversation(runs: list[Asked]) -> None:
    others = [scripted_model.answer(replace(request, seed=99)) for request in runs[0].requests]

    assert others != runs[0].answers


def test_a_run_has_eight_to_fourteen_rounds(runs: list[Asked]) -> None:
    rounds = {len(asked.answers) for asked in runs}

    assert 8 <= min(rounds) < max(rounds) <= 14


def test_a_report_fits_into_what_is_carried_over(runs: list[Asked]) -> None:
    assert max(len(said.text) for asked in runs for said in asked.answers) < REPORT_LIMIT


def test_no_document_is_read_twice_and_no_query_repeated(runs: list[Asked]) -> None:
    for asked in runs:
        calls = [(call.name, call.arguments) for said in asked.answers for call in said.tool_calls]
        assert len(calls) == len(set(calls))


def test_the_last_lines_tell_what_was_done_and_the_handed_over_report_has_none(runs: list[Asked]) -> None:
    for asked in runs:
        *_, before, last = asked.answers
        searches = sum(call.name == "search" for said in asked.answers[:-2] for call in said.tool_calls)
        assert len(line(before.text, "Searched", " | ")) == searches
        assert not re.search("^(Read|To look at|Searched):", last.text, re.MULTILINE)


def test_what_is_cited_stands_in_the_document_that_is_named(runs: list[Asked]) -> None:
    texts = {document.name: " ".join(document.text.split()) for document in LIBRARY.documents}

    for asked in runs:
        cited = CITED.findall(asked.answers[-1].text)
        assert len(cited) > 10
        assert [said for said, name in cited if said not in texts[name]] == []


def test_a_prompt_of_another_form_is_told() -> None:
    asked = Asked(scripted_model.answer)
    asyncio.run(iterative_research(asked, TASKS[0]["question"], rounds=1))
    (request,) = asked.requests
    system, user = request.messages

    strange = replace(request, messages=(system, replace(user, content="Hello")))
    assert scripted_model.answer(strange) == Answer("This is no round of mine.")
