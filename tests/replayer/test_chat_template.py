from __future__ import annotations

import pytest

from rotoscope.replayer.chat_template import ChatTemplate, TemplateIds

TEMPLATE = ChatTemplate(head=3, turn=2, back=2, tail=3, common=2)


def test_each_place_of_the_template_has_an_id_of_its_own() -> None:
    ids = TemplateIds(TEMPLATE, 100)

    assert ids.head.tolist() == [100, 101, 102]
    assert ids.turn.tolist() == [103, 104]
    assert ids.back.tolist() == [105, 106]
    assert TEMPLATE.ids == 8


def test_the_end_of_a_prompt_begins_like_a_turn() -> None:
    assert TemplateIds(TEMPLATE, 100).tail.tolist() == [103, 104, 107]


@pytest.mark.parametrize(
    ("template", "takes_up"),
    [
        (ChatTemplate(head=3, turn=2, back=2, tail=2, common=2), True),
        (ChatTemplate(head=3, turn=2, back=2, tail=3, common=2), False),
        (ChatTemplate(head=3, turn=3, back=2, tail=2, common=2), False),
        (ChatTemplate(head=3, turn=2, back=2, tail=2, common=1), False),
    ],
)
def test_answers_are_taken_up_where_a_turn_is_what_a_prompt_ends_with(template: ChatTemplate, takes_up: bool) -> None:
    assert template.takes_answers_up is takes_up


def test_the_least_prompt_is_a_word_between_head_and_tail() -> None:
    assert TEMPLATE.least_prompt == 7
