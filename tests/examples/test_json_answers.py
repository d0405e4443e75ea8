import pytest
from pydantic import BaseModel

from examples.json_answers import json_in


class Verdict(BaseModel):
    score: int
    because: str = ""


@pytest.mark.parametrize(
    "text",
    ['{"score": 3}', 'Here it is:\n```json\n{"score": 3}\n```\nDone.', '{"score": 3, "more": {"x": [1]}}'],
)
def test_an_object_is_found_among_words(text: str) -> None:
    assert json_in(text, Verdict) == Verdict(score=3)


@pytest.mark.parametrize(
    "text", ["", "three", "{", "{}", '{"score": "many"}', '{"score": 3', "[3]", '{"a"} {"score": 3}']
)
def test_what_does_not_fit_is_none(text: str) -> None:
    assert json_in(text, Verdict) is None
