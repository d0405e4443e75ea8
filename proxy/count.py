"""Counting of texts by a tokenizer at hand, in a process of its own, after the answers have been forwarded.

Recorders hand out the texts of parts that are new (`Recorder.uncounted`) and take their counts back
(`Recorder.counted`). The process is started when the first call comes, so that it loads its tokenizer beside it. When it
cannot be started or dies, what was not counted stays an estimate, texts are dropped as they come, and that is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from rotoscope.proxy.counter_process import packed_texts, unpacked_counts
from rotoscope.recorder.counting import Counted, Uncounted
from rotoscope.recorder.token_counters import Tokenizer

ENDING_S = 2.0
"""How long the process may take to end when its input has."""
ANSWER_TIMEOUT_S = 60.0
"""How long it may take for a batch of texts, and to load its tokenizer before the first."""
MOST_WAITING_CHARS = 1 << 26
"""How much of all runs may wait; what comes on top stays uncounted, so that RAM is bounded."""
PAUSE_S = 0.1
"""How long texts may gather before the next batch of them is counted."""
_ANSWER_BYTES = 1 << 20


class HandsOutTexts(Protocol):
    """A recorder, as counting sees it."""

    @property
    def waiting_texts(self) -> int:
        """How many texts wait to be handed out."""

    @property
    def waiting_chars(self) -> int:
        """How many characters they have."""

    def uncounted(self) -> list[Uncounted]:
        """Return texts that wait to be counted, and forget them."""

    def counted(self, counts: Sequence[Counted]) -> None:
        """Take in counts."""


class Uncountable(Exception):
    """The process that counts is gone."""


class CounterProcess:
    """Count in another process."""

    def __init__(self, tokenizer: Tokenizer, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._tokenizer = tokenizer
        self._timeout_s = timeout_s
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Return the number of the process, None when there is none."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process, which then loads its tokenizer. Raises Uncountable."""
        file = self._tokenizer.file
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "rotoscope.proxy.counter_process", self._tokenizer.name),
                *(() if file is None else (str(file.absolute()),)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_ANSWER_BYTES,
                env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
            )
        except OSError as error:
            raise Uncountable from error

    async def count(self, texts: Sequence[Uncounted]) -> list[Counted]:
        """Return the counts of texts. Raises Uncountable."""
        if self._process is None:
            raise Uncountable
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(self._timeout_s):
                self._process.stdin.write(packed_texts(texts))
                await self._process.stdin.drain()
                return unpacked_counts(await self._process.stdout.readline())
        except (
            OSError,
            ValueError,
        ) as error:  # a TimeoutError is an OSError; ValueError: an answer that is cut, or none
            raise Uncountable from error

    async def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(ENDING_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


class Counting:
    """Let the texts of recorders be counted, one batch after another, in a task of its own."""

    def __init__(
        self, process: CounterProcess, *, notice: Callable[[str], None], most_chars: int = MOST_WAITING_CHARS
    ) -> None:
        self._process = process
        self._notice = notice
        self._most_chars = most_chars
        self._is_crowded = False
        self._queue: asyncio.Queue[HandsOutTexts | asyncio.Future[None]] = asyncio.Queue()
        self._queued: dict[int, HandsOutTexts] = {}
        self._now: HandsOutTexts | None = None
        """Whose texts are being counted."""
        self._in_hand = 0
        """How many of them were handed out and are not counted yet."""
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._is_broken = False

    @property
    def waiting(self) -> int:
        """How many texts are still to be counted."""
        return self._in_hand + sum(recorder.waiting_texts for recorder in self._recorders)

    @property
    def _recorders(self) -> list[HandsOutTexts]:
        """Return those whose texts wait."""
        now = {} if self._now is None else {id(self._now): self._now}
        return list((self._queued | now).values())

    def prepare(self) -> None:
        """Load the tokenizer: there will be texts to count."""
        self._wanted.set()

    def submit(self, recorder: HandsOutTexts) -> None:
        """Let the texts that a recorder has be counted, unless too many of all recorders wait; never waits."""
        self.prepare()
        if sum(other.waiting_chars for other in self._recorders if other is not recorder) > self._most_chars:
            self._drop(recorder)
            return
        if id(recorder) not in self._queued:
            self._queued[id(recorder)] = recorder
            self._queue.put_nowait(recorder)

    async def run(self) -> None:
        """Count what is submitted until cancelled."""
        try:
            await self._wanted.wait()
            await self._start()
            while True:
                next_ = await self._queue.get()
                if isinstance(next_, asyncio.Future):
                    if not next_.done():
                        next_.set_result(None)
                else:
                    self._now = self._queued.pop(id(next_))
                    await self._count(next_)
                    self._now = None
                    await self._pause()
        finally:
            await self._process.stop()

    async def finish(self, *, timeout_s: float) -> None:
        """Wait until all that was submitted so far is counted, at most `timeout_s`; the rest stays uncounted."""
        if not self._wanted.is_set():
            return
        self._hurry.set()
        reached = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(reached)
        try:
            async with asyncio.timeout(timeout_s):
                await reached
        except TimeoutError:
            self._notice("some messages were not counted when the recording ended: their sizes are estimates")

    async def _pause(self) -> None:
        """Let texts gather, as a batch for each call would cost the calls more; nobody who waits is kept waiting."""
        if self._queue.empty():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await self._hurry.wait()
        else:
            await asyncio.sleep(0)  # a queue that is never empty must not hold up the calls
        self._hurry.clear()

    def _drop(self, recorder: HandsOutTexts) -> None:
        while recorder.uncounted():
            pass
        if not self._is_crowded:
            self._is_crowded = True
            self._notice("texts come faster than they can be counted: sizes of those on top are estimates")

    async def _start(self) -> None:
        try:
            await self._process.start()
        except Uncountable:
            self._break()

    def _break(self) -> None:
        self._is_broken = True
        self._notice("the tokenizer could not be loaded or broke: sizes that it would count are estimates")

    async def _count(self, recorder: HandsOutTexts) -> None:
        while texts := recorder.uncounted():
            if self._is_broken:
                continue
            self._in_hand = len(texts)
            try:
                recorder.counted(await self._process.count(texts))
            except Uncountable:
                self._break()
            finally:
                self._in_hand = 0
