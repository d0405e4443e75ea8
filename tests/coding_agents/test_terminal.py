"""That the terminal of the tests reads what is drawn in pieces, and answers what programs ask it."""

from __future__ import annotations

import asyncio
import os
import tty

from coding_agents.terminal import terminal

LIMIT_S = 30.0


def drawn_and_answered(pieces: list[str], words: str) -> bytes:
    """Draw pieces, each when the one before it was read; return what the terminal says when words are there."""

    async def draw() -> bytes:
        with terminal([]) as opened:
            theirs = os.open(opened.name, os.O_RDWR | os.O_NOCTTY)
            try:
                tty.setraw(theirs)
                for piece in pieces:
                    os.write(theirs, piece.encode())
                    opened.draw()
                await asyncio.wait_for(opened.sees(words), LIMIT_S)
                return os.read(theirs, 100)
            finally:
                os.close(theirs)

    return asyncio.run(draw())


def test_words_are_read_whatever_is_drawn_between_their_letters_and_wherever_that_is_cut() -> None:
    pieces = ["\x1b[c\x1b]0;ti", "tle\x07He\x1b[", "1;2Hl", "\x1b]8;;a\x1b", "\\lo\x1b", "[31m w\x1b(Bo│rld"]

    assert drawn_and_answered(pieces, "Hello world") == b"\x1b[?62;22c"
