"""Answers that no span tells, found in later prompts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from otlp_spans import chat, file_of, members_of

from rotoscope.traces import Call


def asked(*messages: tuple[str, str]) -> dict[str, Any]:
    told = [{"role": role, "parts": [{"type": "text", "content": content}]} for role, content in messages]
    return {"gen_ai.input.messages": json.dumps(told)}


QUESTION = ("user", "How is it in Ghent?")
ANSWER = ("assistant", "It rains in Ghent, and it has for weeks.")
FIRST = chat(60, 300, asked(QUESTION), at=(0, 1))


def calls_of(*spans: Any) -> Sequence[Call]:
    (member,) = members_of(file_of(*spans))
    return list(member.trace.calls())


def test_a_later_prompt_tells_what_was_answered() -> None:
    _, second = calls_of(FIRST, chat(380, 5, asked(QUESTION, ANSWER, ("user", "Still?")), at=(2, 3)))

    assert second.prefix.of == 0
    assert second.prefix.greatest == 360


def test_a_prompt_that_was_sent_before_the_answer_was_there_does_not_tell_it() -> None:
    _, second = calls_of(FIRST, chat(380, 5, asked(QUESTION, ANSWER, ("user", "Still?")), at=(0.5, 3)))

    assert second.prefix.greatest < 360


def test_the_same_words_of_a_user_tell_nothing() -> None:
    _, second = calls_of(FIRST, chat(380, 5, asked(QUESTION, ("user", ANSWER[1])), at=(2, 3)))

    assert second.prefix.greatest < 360
