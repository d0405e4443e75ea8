from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.message_text import MessageText
from rotoscope.replayer.spelling import Spelling
from rotoscope.replayer.tokens import TokenIds
from rotoscope.replayer.words import Words

TEMPLATE = ChatTemplate(head=2, turn=2, back=1, tail=2, common=2)
LETTERS = Spelling(Words([" the", " cat", " sat"]), TEMPLATE)
CHARACTERS = Spelling(Words(["一", "丁", "七"]), TEMPLATE)
OTHERS = ["!", '"', " dog", "\n"]


def ids(*values: int) -> TokenIds:
    return np.array(values, np.uint32)


def begun(spelling: Spelling = LETTERS) -> MessageText:
    text = MessageText(spelling)
    text.append(spelling.template_ids.head)
    return text


def test_messages_are_a_json_array_that_may_end_at_any_word() -> None:
    text = begun()
    text.append(ids(0, 1, 2))

    assert text.array(5) == b'[{"role":"user","content":"the cat sat"}]'
    assert text.array(4) == b'[{"role":"user","content":"the cat"}]'
    assert text.array(3) == b'[{"role":"user","content":"the"}]'


def test_roles_take_turns() -> None:
    text = begun(CHARACTERS)
    template = CHARACTERS.template_ids
    text.append(np.concatenate([ids(0, 1), template.turn, ids(2), template.back, ids(0)]))

    assert json.loads(text.array(text.end)) == [
        {"role": "user", "content": "一丁"},
        {"role": "assistant", "content": "七"},
        {"role": "user", "content": "一"},
    ]


def test_a_word_has_its_space_within_a_message_and_after_an_answer() -> None:
    text = begun()
    text.append(ids(0))
    text.append(ids(1))
    text.append(LETTERS.template_ids.turn)
    text.append(LETTERS.ids_of(["dog", "!"]))
    text.append(ids(2))

    assert [message["content"] for message in json.loads(text.array(text.end))] == ["the cat", "dog! sat"]


def test_an_answer_that_begins_with_a_word_begins_without_a_space() -> None:
    text = begun()
    text.append(ids(0))
    text.append(np.concatenate([LETTERS.template_ids.turn, LETTERS.ids_of(["the", " cat", "!", " sat"])]))

    assert json.loads(text.array(text.end))[1]["content"] == "the cat! sat"
    assert json.loads(text.array(text.end - 2))[1]["content"] == "the cat"


def test_a_text_that_goes_on_from_the_start_of_a_message_begins_it_without_a_space() -> None:
    text = begun()
    text.append(ids(0, 1))
    other = text.continued(2)
    other.append(ids(2, 2))

    assert other.array(4) == b'[{"role":"user","content":"sat sat"}]'


@given(st.data(), st.sampled_from([LETTERS, CHARACTERS]))
def test_any_tree_of_texts_holds_the_messages_of_its_streams(data: st.DataObject, spelling: Spelling) -> None:
    streams: list[tuple[MessageText, list[list[str]]]] = [(begun(spelling), [[]])]
    lengths = [[2]]
    for _ in range(data.draw(st.integers(1, 10))):
        number = data.draw(st.integers(0, len(streams) - 1))
        text, contents = streams[number]
        last = data.draw(st.integers(0, len(contents) - 1))
        kept = data.draw(st.integers(0, len(contents[last])))
        longer = text.continued(lengths[number][last] + kept)
        contents = [*contents[:last], contents[last][:kept]]
        starts = lengths[number][: last + 1]
        for _ in range(data.draw(st.integers(1, 3))):
            more = data.draw(st.lists(st.sampled_from(range(3)), min_size=0 if contents[-1] else 1, max_size=4))
            others = data.draw(st.lists(st.sampled_from(OTHERS), max_size=2))
            longer.append(ids(*more))
            longer.append(spelling.ids_of(["-", *others])[1:])
            written = [spelling.words.word(one).decode() for one in more]
            if not contents[-1]:
                written[0] = written[0].lstrip()
            contents[-1] = [*contents[-1], *written, *others]
            if data.draw(st.booleans()):
                template = spelling.template_ids
                longer.append(template.turn if len(contents) % 2 else template.back)
                starts = [*starts, longer.end]
                contents = [*contents, []]
        streams.append((longer, contents))
        lengths.append(starts)

    for (text, contents), starts in zip(streams, lengths, strict=True):
        for number, content in enumerate(contents):
            for stop in range(len(content) + 1):
                messages = json.loads(text.array(starts[number] + stop))
                expected = ["".join(pieces) for pieces in [*contents[:number], content[:stop]]]
                assert [message["content"] for message in messages] == expected


def test_texts_that_fork_again_and_again_are_copied_together() -> None:
    text, words = begun(), [0, 1]
    text.append(ids(*words))
    for number in range(400):
        text = text.continued(text.end - 1)
        text.append(ids(number % 3, 1))
        words = [*words[:-1], number % 3, 1]

    depth, ancestor = 0, text._parent
    while ancestor is not None:
        depth, ancestor = depth + 1, ancestor._parent
    assert depth <= 128
    for stop in (1, 2, 7, 130, 399, len(words)):
        expected = LETTERS.words.text(ids(*words[:stop])).decode().strip()
        assert json.loads(text.array(2 + stop))[0]["content"] == expected
