from __future__ import annotations

import asyncio

import numpy as np

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.layout import PLAIN
from rotoscope.replayer.rendering import TOKEN_ARRAYS, TOKEN_LISTS
from rotoscope.replayer.text import unpacked
from rotoscope.testing import make_trace


def exchange(*ids: int, counted: int) -> Exchange:
    return Exchange(prompt=b"[1]", output_tokens=3, output_ids=list(ids), completion_tokens=counted)


def test_lists_of_ids_are_laid_out_as_recorded() -> None:
    trace = make_trace(turns=2)
    laid_out = TOKEN_LISTS.lay_out(trace)

    assert laid_out.trace is trace
    assert laid_out.layout(1) is TOKEN_LISTS.shared_layout(is_root=True) is PLAIN
    assert (laid_out.lost_tokens, laid_out.too_short) == (0, 0)


def test_a_whole_answer_is_known_where_there_is_an_id_a_token() -> None:
    assert asyncio.run(TOKEN_LISTS.whole_answer(exchange(4, 5, 6, counted=3), taken_up=set())) == [4, 5, 6]
    assert asyncio.run(TOKEN_LISTS.whole_answer(exchange(4, 5, counted=3), taken_up={3})) is None


def test_what_has_arrived_of_an_answer_is_known_by_its_ids() -> None:
    assert TOKEN_LISTS.partial_answer(exchange(4, 5, counted=3), taken_up={3}) == [4, 5]
    assert TOKEN_LISTS.partial_answer(exchange(counted=0), taken_up={3}) is None


def test_for_a_server_in_this_process_ids_are_packed_and_all_else_is_the_same() -> None:
    text = TOKEN_ARRAYS.text()
    text.append(np.array([4, 5, 6], np.uint32))

    assert unpacked(text.array(2)).tolist() == [4, 5]
    assert TOKEN_ARRAYS.partial_answer(exchange(4, 5, counted=3), taken_up={3}) == [4, 5]
