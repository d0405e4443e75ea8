from __future__ import annotations

import pytest
from chat_wire import delta, pieces, sse, usage
from hypothesis import given, settings
from hypothesis import strategies as st

from rotoscope.recorder.sse import LARGEST_USAGE_BYTES, EventFilter, event_data

USAGE = sse({"choices": [], "usage": usage(5, 2)})
WORD = sse(delta({"content": "häuser"}))


class Stream:
    """Feed bytes and keep what came out; events that begin with `{"choices":[],` are to be withheld."""

    def __init__(self, *, withholds: bool = True) -> None:
        self.taken: list[bytes] = []
        self.forwarded: list[bytes] = []
        self.filter = EventFilter(self._take, withholds=withholds)

    def _take(self, data: bytes) -> bool:
        self.taken.append(data)
        return data.startswith(b'{"choices":[],')

    def feed(self, *chunks: bytes) -> bytes:
        self.forwarded.extend(self.filter.feed(chunk) for chunk in chunks)
        return b"".join(self.forwarded)

    def finish(self) -> bytes:
        self.forwarded.append(self.filter.finish())
        return b"".join(self.forwarded)


def test_a_usage_chunk_that_was_asked_for_is_not_forwarded() -> None:
    stream = Stream()

    assert stream.feed(WORD, USAGE, sse("[DONE]")) == WORD + sse("[DONE]")
    assert stream.taken[1] == USAGE[6:-2]


def test_a_usage_chunk_that_the_client_asked_for_is_forwarded() -> None:
    assert Stream(withholds=False).feed(WORD, USAGE) == WORD + USAGE


def test_events_glued_together_are_told_apart() -> None:
    stream = Stream()

    assert stream.feed(WORD + WORD + USAGE + sse("[DONE]")) == WORD + WORD + sse("[DONE]")
    assert len(stream.taken) == 4


@pytest.mark.parametrize("ending", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n"])
def test_lines_may_end_in_every_way(ending: str) -> None:
    stream = Stream()
    data = f'data: {{"a":1}}{ending}data:{{"choices":[],"b":2}}{ending}data: end{ending}'.encode()

    stream.feed(data)

    assert stream.finish() == f'data: {{"a":1}}{ending}data: end{ending}'.encode()
    assert stream.taken == [b'{"a":1}', b'{"choices":[],"b":2}', b"end"]


def test_data_over_several_lines_is_joined() -> None:
    assert event_data(b'event: x\ndata: {"a":\ndata: 1}\nid: 7\n\n') == b'{"a":\n1}'


def test_comments_are_no_data() -> None:
    assert event_data(b": ping\n\n") == b""


def test_a_word_is_forwarded_before_its_event_is_whole() -> None:
    stream = Stream()
    half = WORD[: WORD.index(b"delta")]

    assert stream.feed(half) == half


def test_only_what_may_be_a_usage_chunk_is_held_back() -> None:
    stream = Stream()

    assert stream.feed(b'data: {"id":1,"choices":[') == b""
    assert stream.feed(b"{") == b'data: {"id":1,"choices":[{'


def test_a_comment_is_forwarded_at_once_even_in_front_of_what_is_held_back() -> None:
    stream = Stream()

    assert stream.feed(b': ping\ndata: {"cho') == b": ping\n"
    assert stream.feed(USAGE[11:]) == b": ping\n"


def test_empty_lines_and_comments_in_front_of_a_withheld_event_are_forwarded() -> None:
    stream = Stream()

    assert stream.feed(b"\n: ping\n" + USAGE) == b"\n: ping\n"


def test_what_is_too_long_for_a_usage_chunk_is_not_held_back() -> None:
    stream = Stream()

    assert stream.feed(b"data: " + b" " * LARGEST_USAGE_BYTES) != b""


def test_a_usage_chunk_that_the_end_of_the_stream_ends_is_not_forwarded() -> None:
    stream = Stream()
    stream.feed(WORD + USAGE.rstrip())

    assert stream.finish() == WORD


def test_a_usage_chunk_that_has_begun_to_be_forwarded_is_forwarded() -> None:
    stream = Stream()
    odd = b'"choices":[{}]\n' + USAGE

    assert stream.feed(odd[:20], odd[20:], WORD) == odd + WORD


def test_an_event_that_the_end_of_the_stream_cuts_is_forwarded() -> None:
    stream = Stream()
    stream.feed(WORD + b'data: {"cho')

    assert stream.finish() == WORD + b'data: {"cho'


EVENTS = st.lists(
    st.sampled_from(
        [
            WORD,
            USAGE,
            b": ping\n\n",
            b": note\n" + WORD,
            b"event: x\nid: 3\n" + WORD,
            b"\n",
            sse(delta({"content": 'a "choices":[] b'})),
            sse(delta({"tool_calls": [{"index": 0, "function": {"arguments": '{"choices":[],'}}]})),
            sse({"id": "x", "choices": [{"index": 0}], "usage": None}),
            sse("[DONE]"),
        ]
    ),
    max_size=8,
)


@settings(max_examples=400)
@given(events=EVENTS, cuts=st.lists(st.integers(0, 2000), max_size=12), crlf=st.booleans(), ends=st.booleans())
def test_any_cut_of_a_stream_gives_the_same_events_and_every_other_byte(
    events: list[bytes], cuts: list[int], crlf: bool, ends: bool
) -> None:
    def wire(some: list[bytes]) -> bytes:
        data = b"".join(some)
        data = data if ends else data.rstrip(b"\n")
        return data.replace(b"\n", b"\r\n") if crlf else data

    whole, cut = Stream(), Stream()
    whole.feed(wire(events))
    whole.finish()
    cut.feed(*pieces(wire(events), cuts))

    assert cut.finish() == b"".join(whole.forwarded)
    assert [x for x in cut.taken if x] == [x for x in whole.taken if x]
    if ends:
        assert b"".join(whole.forwarded) == wire([event for event in events if event is not USAGE])


@given(events=EVENTS, cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_nothing_is_ever_held_back_of_a_stream_without_our_usage(events: list[bytes], cuts: list[int]) -> None:
    stream = Stream(withholds=False)

    for piece in pieces(b"".join(events), cuts):
        assert stream.filter.feed(piece) == piece
