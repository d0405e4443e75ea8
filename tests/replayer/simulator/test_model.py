from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rotoscope.replayer.simulator.model import Answer, ModelRequest, RandomModel, load_model, random_ids
from rotoscope.replayer.simulator.tokenizer import word_ids
from rotoscope.traces.errors import UnusableInput

REQUEST = ModelRequest(np.arange(300, 330, dtype=np.uint32))


def test_the_same_request_gets_the_same_answer() -> None:
    again = ModelRequest(np.arange(300, 330, dtype=np.uint32))

    assert RandomModel().answer(REQUEST) == RandomModel().answer(again)


@pytest.mark.parametrize(
    "other",
    [
        ModelRequest(np.arange(300, 331, dtype=np.uint32)),
        ModelRequest(REQUEST.prompt_ids, seed=1),
        ModelRequest(REQUEST.prompt_ids, choice=1),
    ],
)
def test_another_prompt_seed_or_choice_gets_another_answer(other: ModelRequest) -> None:
    assert RandomModel().answer(REQUEST).token_ids[:16] != RandomModel().answer(other).token_ids[:16]


def test_random_answers_are_words_of_varying_number() -> None:
    answers = [RandomModel().answer(ModelRequest(REQUEST.prompt_ids, seed=seed)) for seed in range(50)]
    lengths = {len(answer.token_ids) for answer in answers}

    assert min(lengths) >= 16
    assert max(lengths) <= 256
    assert len(lengths) > 20
    assert all(token in word_ids() for answer in answers for token in answer.token_ids)


def test_a_longer_draw_begins_with_a_shorter_one() -> None:
    assert random_ids(REQUEST, 100)[:30].tolist() == random_ids(REQUEST, 30).tolist()


SCRIPT = """
from rotoscope.replayer.simulator.model import Answer

def function(request):
    return Answer(text="function")

class Instance:
    def answer(self, request):
        return Answer(text="instance")

instance = Instance()
number = 7
"""


@pytest.mark.parametrize(
    ("name", "said"), [("function", "function"), ("instance", "instance"), ("Instance", "instance")]
)
def test_a_script_is_a_function_or_has_an_answer_method(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripted_for_this_test.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["elsewhere"])

    assert load_model(f"scripted_for_this_test:{name}").answer(REQUEST) == Answer(text=said)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("scripted_for_this_test", "MODULE:NAME"),
        (".scripted_for_this_test:answer", "MODULE:NAME"),
        ("no_such_module_at_all:answer", "cannot be loaded"),
        ("json:no_such_name", "cannot be loaded"),
        ("math:pi", "neither a function"),
    ],
)
def test_a_script_that_cannot_be_used_is_refused(script: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])

    with pytest.raises(UnusableInput, match=message):
        load_model(script)
