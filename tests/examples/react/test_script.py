import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_agent import Played, play

from examples import scripted_model
from examples.react import script
from rotoscope.replayer.simulator import model as simulator
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.tokenizer import encode

SEED = 3
"""Of a run in which a first try is wrong."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(scripted_model.answer, tmp_path_factory.mktemp("scripted"), seed=SEED)


@pytest.mark.parametrize("seed", [SEED + 1, -1, 2**64])
def test_another_seed_gives_other_answers_to_the_same_conversation(played: Played, seed: int) -> None:
    others = [scripted_model.answer(replace(request, seed=seed)) for request in played.requests]

    assert others != played.answers


def test_nothing_is_kept_between_answers(played: Played) -> None:
    again = [scripted_model.answer(request) for request in reversed(played.requests)]

    assert again[::-1] == played.answers


def test_a_run_is_as_long_as_that_of_a_real_coder(played: Played) -> None:
    prompts = [len(encode(render(request.messages, request.tools))) for request in played.requests]

    assert 15 <= len(played.answers) <= 25
    assert 1_500 <= prompts[0] <= 3_000
    assert prompts[-1] >= 10_000


def test_thinking_and_parallel_calls_come_in_some_answers(played: Played) -> None:
    assert 0 < sum(bool(answer.reasoning) for answer in played.answers) < len(played.answers)
    assert any(len(answer.tool_calls) > 1 for answer in played.answers)


@given(st.integers(min_value=0))
def test_every_plan_for_five_faults_stays_within_the_steps_of_the_agent(seed: int) -> None:
    plan = script.plan(seed)

    answers = 20 + plan.reads_readme + plan.shows_example + len(plan.apart) + len(plan.searches) + len(plan.probes)
    answers += 2 * len(plan.wrong_at_first) + len(plan.rereads)
    assert 20 <= answers <= 34


def test_a_first_try_is_refused_by_the_tests_and_then_corrected(played: Played) -> None:
    (module,) = script.plan(SEED).wrong_at_first & set(script.EARLY)

    edited = [
        json.loads(call.arguments)["path"]
        for answer in played.answers
        for call in answer.tool_calls
        if call.name == "edit_file"
    ]
    assert len(edited) == 5
    assert edited.count(f"tally/{module}.py") == 2


def test_code_that_is_not_as_expected_ends_the_run(tmp_path: Path) -> None:
    def model(request: simulator.ModelRequest) -> simulator.Answer:
        if len(request.messages) == 2:
            replace = "sed -i 's/cents/pence/' tally/*.py"
            return simulator.Answer(
                tool_calls=(
                    simulator.ToolCall("run_command", json.dumps({"command": replace})),
                    simulator.ToolCall("list_files", "{}"),
                )
            )
        return scripted_model.answer(request)

    played = play(model, tmp_path)

    assert played.workspace.finished
    assert "I do not understand" in played.answers[-1].tool_calls[0].arguments
