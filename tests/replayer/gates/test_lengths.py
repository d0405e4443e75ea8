from __future__ import annotations

from typing import Any

import pytest
from gate_evidence import evidence_of
from replay_doubles import make_request_result

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.gates.lengths import output_lengths, prompt_lengths
from rotoscope.replayer.results import RequestResult

TEMPLATE = ChatTemplate(head=6, turn=4, back=3, tail=4, common=4)


def with_some(count: int, **fields: Any) -> list[RequestResult]:
    """Return a hundred results, so many of them with these fields."""
    return [make_request_result(**fields if number < count else {}) for number in range(100)]


@pytest.mark.parametrize(("count", "passed"), [(0, True), (1, True), (2, False)])
@pytest.mark.parametrize("tokens", [2, 4])
def test_more_than_one_answer_of_a_hundred_of_another_length_is_too_many(count: int, passed: bool, tokens: int) -> None:
    gate = output_lengths(evidence_of(with_some(count, completion_tokens=tokens)))

    assert (gate.passed, gate.measured) == (passed, count / 100)


def test_answers_without_a_length_count_on_neither_side() -> None:
    results = [make_request_result(completion_tokens=None), make_request_result(completion_tokens=2)]

    assert output_lengths(evidence_of(results)).measured == 1.0
    assert output_lengths(evidence_of(results[:1])).passed is None


def test_requests_that_failed_have_no_length() -> None:
    failed = make_request_result(status="failed", completion_tokens=1, prompt_tokens=7)

    assert output_lengths(evidence_of([failed, make_request_result()])).passed
    assert prompt_lengths(evidence_of([failed, make_request_result()])).passed


@pytest.mark.parametrize(("count", "passed"), [(0, True), (1, True), (2, False)])
def test_prompts_of_ids_have_exactly_their_length(count: int, passed: bool) -> None:
    gate = prompt_lengths(evidence_of(with_some(count, prompt_tokens=101)))

    assert (gate.passed, gate.measured) == (passed, count / 100)


@pytest.mark.parametrize(("counted", "passed"), [(1000, True), (1010, True), (990, True), (1011, False), (989, False)])
def test_prompts_of_words_may_be_off_by_a_hundredth(counted: int, passed: bool) -> None:
    request = make_request_result(planned_prompt_tokens=1000, prompt_tokens=counted)

    assert prompt_lengths(evidence_of([request], words=300)).passed is passed


@pytest.mark.parametrize(("counted", "passed"), [(11, True), (5, False), (12, False)])
def test_no_prompt_of_words_is_shorter_than_the_template_and_a_word(counted: int, passed: bool) -> None:
    request = make_request_result(planned_prompt_tokens=5, prompt_tokens=counted)

    assert prompt_lengths(evidence_of([request], words=300, template=TEMPLATE)).passed is passed


def test_a_server_that_counts_no_prompts_cannot_be_checked() -> None:
    assert prompt_lengths(evidence_of([make_request_result(prompt_tokens=None)])).passed is None


def test_a_token_asked_for_in_the_place_of_none_is_no_other_length() -> None:
    empty = make_request_result(planned_completion_tokens=0, asked_tokens=1, completion_tokens=1)

    assert output_lengths(evidence_of([empty])).passed
