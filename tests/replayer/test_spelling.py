from __future__ import annotations

import numpy as np

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.spelling import Spelling
from rotoscope.replayer.words import Words

TEMPLATE = ChatTemplate(head=2, turn=2, back=1, tail=2, common=2)


def spelling() -> Spelling:
    return Spelling(Words([" the", " cat"]), TEMPLATE)


def test_words_have_their_own_ids_and_other_pieces_those_behind_the_template() -> None:
    ids = spelling().ids_of(["the", " cat", " sat", "!", " sat"])

    assert ids.tolist() == [0, 1, 7, 8, 7]
    assert ids.dtype == np.uint32


def test_a_word_at_the_start_has_no_space() -> None:
    one = spelling()

    assert one.ids_of([" the", "the"]).tolist() == [7, 8]
    assert one.ids_of(["the", " the"]).tolist() == [0, 0]


def test_the_same_piece_has_the_same_id_in_every_answer() -> None:
    one = spelling()

    assert one.ids_of([" sat", "x"]).tolist() == [7, 8]
    assert one.ids_of(["x", " sat"]).tolist() == [8, 7]
    assert one.ids_of([]).tolist() == []


def test_pieces_are_written_as_json() -> None:
    one = spelling()
    ids = one.ids_of(['say "no"', "\n", " the"])

    assert b"".join(one.pieces(ids)) == rb"say \"no\"\n the"


def test_the_first_token_of_a_border_is_written_as_the_border_and_the_rest_as_nothing() -> None:
    one = spelling()

    assert one.pieces(one.template_ids.head) == [b'[{"role":"user","content":"', b""]
    assert one.pieces(one.template_ids.turn) == [b'"},{"role":"assistant","content":"', b""]
    assert one.pieces(one.template_ids.back) == [b'"},{"role":"user","content":"']


def test_an_answer_of_words_is_known_as_one() -> None:
    one = spelling()

    assert one.are_words(["cat", " the"])
    assert not one.are_words([" cat", " the"])
    assert not one.are_words(["cat", " sat"])
