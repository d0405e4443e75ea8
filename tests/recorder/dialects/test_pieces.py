from __future__ import annotations

from typing import Any

import pytest

from rotoscope.recorder.canonical import message_part
from rotoscope.recorder.dialects.pieces import Media, Piece, PiecedOutput, Text, Thinking, ToolUse, assistant_message


class Said(PiecedOutput):
    """An output that is all there."""

    def __init__(self, *pieces: Piece) -> None:
        super().__init__()
        self._pieces = pieces

    def pieces(self) -> list[Piece]:
        return list(self._pieces)


CALL = ToolUse("c1", "read", "{}")


def exact(*pieces: Piece) -> bytes:
    return message_part(assistant_message(pieces)).exact


def test_pieces_in_the_usual_order_are_a_message_of_a_chat() -> None:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "hi",
        "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "{}"}}],
        "reasoning_content": "hm",
    }

    assert assistant_message([Thinking("hm"), Text("hi"), CALL]) == message


@pytest.mark.parametrize(
    "pieces",
    [
        (Text("a"), CALL, Text("b")),
        (Text("a"), Text("b"), CALL),
        (Text("ab"), CALL),
        (CALL, Text("a"), Text("b")),
        (Text("a"), Thinking("t"), Text("b"), CALL),
        (Text("a"), CALL, Text("b"), Thinking("t")),
    ],
)
def test_pieces_in_another_order_are_another_part(pieces: tuple[Piece, ...]) -> None:
    usual = (Thinking("t"), Text("a"), Text("b"), CALL)

    assert exact(*pieces) != exact(*usual)
    assert message_part(assistant_message(pieces)).loose in (b"a b read {}", b"ab read {}")


def test_what_is_empty_is_not_there() -> None:
    assert exact(Thinking(""), Text("a"), CALL, Text("")) == exact(Text("a"), CALL)


def test_an_output_is_the_part_that_it_is_sent_back_as() -> None:
    said = Said(Thinking("hm"), Text("a"), CALL, Media({"type": "image"}))

    assert said.sent_back().exact == exact(*said.pieces())
    assert (said.tool_names, said.tool_ids) == (["read"], ["c1"])


def test_hidden_thinking_may_begin_like_what_follows_it() -> None:
    assert Said(Thinking("ab c"), Text("ab d")).alike_bytes() == 3
    assert Said(Thinking("blob", is_hidden=True), Text("ab d"), CALL).alike_bytes() == len(b"ab d read {}")
    assert Said(Text("ab d")).alike_bytes() == 0


def test_nothing_said_is_in_the_repr() -> None:
    secret = "CANARY"
    pieces: list[Piece] = [Text(secret), Thinking(secret), ToolUse(secret, secret, secret), Media({"x": secret})]

    assert secret not in repr(pieces)
