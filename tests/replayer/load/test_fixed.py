from __future__ import annotations

import pytest

from rotoscope.replayer.load.fixed import Shape
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces import UnusableInput
from rotoscope.traces.validation import validate


@pytest.mark.parametrize("text", ["1024:256", "1:1"])
def test_a_shape_is_written_as_it_is_read(text: str) -> None:
    assert str(Shape.parse(text)) == text


@pytest.mark.parametrize("text", ["", "1024", "0:5", "5:0", "-1:5", "5:6:7", "1e3:5", " 5:6", "5:6\n"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="a fixed shape is ISL:OSL"):
        Shape.parse(text)


@pytest.mark.parametrize("text", ["999999999:1", "1:10000001"])
def test_a_shape_that_takes_all_memory_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="at most 10,000,000 tokens"):
        Shape.parse(text)


def test_a_session_is_one_request_of_the_shape() -> None:
    trace = Shape(1024, 256).trace()

    validate(trace)
    assert [(call.prompt_tokens, call.completion_tokens) for call in trace.calls()] == [(1024, 256)]


def test_sessions_share_nothing() -> None:
    vocabulary = Vocabulary(1000, 1100)
    plan = PromptPlan([Shape(50, 3).trace()], seed=1, salt="salt", sessions=90, vocabulary=vocabulary)

    prompts = [plan.session(number).ids(0) for number in range(90)]

    assert {len(ids) for ids in prompts} == {50}
    assert len({int(ids[0]) for ids in prompts}) == 90
