from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer import stream
from rotoscope.replayer.stream import EndlessEvent, EventReader, payloads


def read(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [payload for piece in pieces for payload in reader.feed(piece)] + payloads(reader.rest())


def payloads_by_the_book(data: bytes) -> list[bytes]:
    """Read a whole stream line by line, as the specification of server-sent events tells it."""
    found: list[bytes] = []
    lines: list[bytes] = []
    for line in [*data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""]:
        if line == b"":
            found += [b"\n".join(lines)] if lines else []
            lines = []
        elif line.startswith(b"data:"):
            lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            lines.append(b"")
    return found


LINES = st.sampled_from(
    [
        b"data: {}",
        b'data:{"a":1}',
        b"data",
        b"data:",
        b": ping",
        b"event: x",
        b"id: 7",
        b"",
        b"nothing",
        b"data: \xc3\xa9",
    ]
)
NEWLINES = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams_in_pieces(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    data = b"".join(draw(LINES) + draw(NEWLINES) for _ in range(draw(st.integers(0, 12))))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return data, [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < end]


@given(streams_in_pieces())
def test_any_cut_of_the_bytes_gives_the_events_of_the_whole(drawn: tuple[bytes, list[bytes]]) -> None:
    data, pieces = drawn

    assert read(pieces) == payloads_by_the_book(data)


def test_a_piece_of_nothing_does_not_part_a_newline() -> None:
    assert read([b"data: a\r", b"", b"\ndata: b\r\n\r\n"]) == [b"a\nb"]


def test_an_event_is_given_out_with_its_last_byte() -> None:
    reader = EventReader()

    assert reader.feed(b"data: {}\n") == []
    assert reader.feed(b"\n") == [b"{}"]
    assert reader.feed(b"data: 1\r\r") == [b"1"]


def test_several_data_lines_are_one_event() -> None:
    assert read([b"data: {\ndata: }\n\n"]) == [b"{\n}"]


def test_the_error_field_of_llama_cpp_becomes_an_error_object() -> None:
    assert read([b'error: {"code":500}\n\n']) == [b'{"error":{"code":500}}']


def test_an_event_without_its_blank_line_is_the_rest() -> None:
    reader = EventReader()

    assert reader.feed(b"data: [DONE]\n") == []
    assert payloads(reader.rest()) == [b"[DONE]"]
    assert payloads(reader.rest()) == []


@pytest.mark.parametrize(
    ("data", "is_between"), [(b"data: 1\n\n", True), (b"data: 1\n", False), (b"data: 1\r\n\r", False), (b"", True)]
)
def test_it_is_known_whether_an_event_has_begun(data: bytes, is_between: bool) -> None:
    reader = EventReader()
    reader.feed(data)

    assert reader.is_between_events == is_between


def test_an_event_without_end_is_refused() -> None:
    reader = EventReader()
    reader.feed(b"x" * stream.LONGEST_EVENT_BYTES)

    with pytest.raises(EndlessEvent):
        reader.feed(b"x")
