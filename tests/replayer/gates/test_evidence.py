from __future__ import annotations

import pytest
from replay_doubles import make_setup

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.gates.evidence import unforeseen_tokens

TEMPLATE = ChatTemplate(head=6, turn=4, back=3, tail=4, common=4)


@pytest.mark.parametrize(
    ("words", "tokens_from", "unforeseen"), [(None, None, 0), (400, "tokenizer", 1), (400, "usage", 1 + 13)]
)
def test_only_prompts_of_words_may_be_off(words: int | None, tokens_from: str | None, unforeseen: int) -> None:
    setup = make_setup(words=words, template=TEMPLATE if words else None, tokens_from=tokens_from)

    assert unforeseen_tokens(setup) == unforeseen
