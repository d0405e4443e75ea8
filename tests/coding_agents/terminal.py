"""A terminal that an agent runs in, and what somebody at it does: read the screen and type.

It is one of the operating system, because agents look whether they are in one. pexpect would be another loop beside
asyncio's, and it looks for bytes, where agents draw words in pieces, with movements between them.
"""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import re
import struct
import termios
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager

from clients.scripted_server import Seen

ENTER, ESCAPE, DOWN, INTERRUPT = "\r", "\x1b", "\x1b[B", "\x03"
LINES, COLUMNS = 50, 160
QUESTIONS = {b"\x1b[c": b"\x1b[?62;22c", b"\x1b[6n": b"\x1b[1;1R", b"\x1b]11;?": b"\x1b]11;rgb:00/00/00\x07"}
"""What programs ask a terminal, and its answers: of what kind it is, where its cursor is, the colour behind its text."""
DRAWING = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[P_^][^\x1b]*\x1b\\|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-OQ-Z\\`-~])"
)
"""What is drawn beside letters: titles, movements, colours."""
UNFINISHED = re.compile(r"\x1b(?:[\]P_^][^\x07\x1b]*\x1b?|\[[0-?]*[ -/]*|[ -/]*)\Z")
"""The beginning of such, whose end is still to come."""
BETWEEN = re.compile(r"\s|[─-▟]")
"""Spaces, which may be movements as well, and lines of boxes."""


class Terminal:
    """A terminal in which one program runs; `until` waits for ever, so the play has a limit."""

    def __init__(self, own: int, name: str, seen: Sequence[Seen]) -> None:
        self.name = name
        """The file that the program reads and writes."""
        self._seen = seen
        self._own = own
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._drawn = ""
        self._letters = ""
        self._is_drawn_on = asyncio.Event()

    @property
    def calls(self) -> int:
        """Return how many calls the server has answered."""
        return sum(request.is_call and request.status == 200 for request in self._seen)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, which is looked at when the program draws; agents do as long as they work."""
        while not is_so():
            self._is_drawn_on.clear()
            await self._is_drawn_on.wait()

    async def sees(self, words: str) -> None:
        """Wait until words are drawn, behind those that were waited for before."""
        letters = BETWEEN.sub("", words)
        await self.until(lambda: letters in self._letters)
        self._letters = self._letters.partition(letters)[2]

    def presses(self, keys: str) -> None:
        """Press keys."""
        os.write(self._own, keys.encode())

    async def says(self, words: str) -> None:
        """Type words and send them when they are on the screen, so that they are not taken for something pasted."""
        self.presses(words)
        await self.sees(words)
        self.presses(ENTER)

    @property
    def unread(self) -> str:
        """Return the letters that were drawn since those that were waited for."""
        return self._letters

    def draw(self) -> None:
        """Take in what the program has drawn."""
        try:
            drawn = os.read(self._own, 1 << 16)
        except OSError:  # the program has gone, and nobody else has its terminal
            asyncio.get_running_loop().remove_reader(self._own)
            return
        for question, answer in QUESTIONS.items():
            if question in drawn:
                os.write(self._own, answer)
        self._drawn += self._decoder.decode(drawn)
        unfinished = UNFINISHED.search(self._drawn)
        end = unfinished.start() if unfinished else len(self._drawn)
        self._letters += BETWEEN.sub("", DRAWING.sub("", self._drawn[:end]))
        self._drawn = self._drawn[end:]
        self._is_drawn_on.set()


Person = Callable[[Terminal], Coroutine[None, None, None]]
"""What somebody at the terminal does."""


@contextmanager
def terminal(seen: Sequence[Seen]) -> Iterator[Terminal]:
    """Open a terminal; `seen` are the requests of the program in it, as its server sees them."""
    own, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        opened = Terminal(own, os.ttyname(theirs), seen)
        loop = asyncio.get_running_loop()
        loop.add_reader(own, opened.draw)
        yield opened
        loop.remove_reader(own)
    finally:
        os.close(own)
        os.close(theirs)
