"""Counting in a thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from event_loops import GUARD_S

from rotoscope.recorder.counting import Counted, Tally, Uncounted
from rotoscope.recorder.token_counters import Tokenizer
from rotoscope.sdk.counting import CountingThread
from rotoscope.traces.errors import UnusableInput

WORDS = Tokenizer("words")


class Words:
    """Counts words."""

    name = "words"

    def count(self, text: str) -> int:
        if text == "secret":
            raise ValueError(text)
        return len(text.split())


@dataclass
class Texts:
    """A run that has texts to count."""

    waiting: list[str]
    counts: list[Counted] = field(default_factory=list)

    def uncounted(self) -> list[Uncounted]:
        taken, self.waiting = self.waiting[:1], self.waiting[1:]
        return [Uncounted(part, text) for part, text in enumerate(taken)]

    def counted(self, counts: list[Counted]) -> None:
        self.counts += counts


def test_texts_of_runs_are_counted_before_they_end() -> None:
    counting = CountingThread(WORDS, load=lambda _: Tally(Words()))
    first, second = Texts(["a", "b c"]), Texts(["d e f"])
    counting.submit(first)
    counting.submit(second)
    counting.finish(timeout_s=GUARD_S)

    assert [count.tokens for count in first.counts + second.counts] == [1, 2, 3]


def test_nothing_is_waited_for_where_nothing_was_to_count() -> None:
    loaded: list[Tokenizer] = []

    def load(tokenizer: Tokenizer) -> Tally:
        loaded.append(tokenizer)
        return Tally(Words())

    CountingThread(WORDS, load=load).finish()

    assert loaded == []


def test_texts_are_dropped_where_no_tokenizer_is(caplog: pytest.LogCaptureFixture) -> None:
    def load(_: Tokenizer) -> Tally:
        raise UnusableInput("secret")

    counting = CountingThread(WORDS, load=load)
    counting.submit(texts := Texts(["a", "b"]))
    counting.finish(timeout_s=GUARD_S)

    assert (texts.waiting, texts.counts) == ([], [])
    assert "secret" not in caplog.text
    assert "could not be loaded" in caplog.text


def test_a_text_that_cannot_be_counted_does_not_hold_up_the_next(caplog: pytest.LogCaptureFixture) -> None:
    counting = CountingThread(WORDS, load=lambda _: Tally(Words()))
    counting.submit(texts := Texts(["secret", "a b"]))
    counting.finish(timeout_s=GUARD_S)

    assert [count.tokens for count in texts.counts] == [2]
    assert "secret" not in caplog.text


def test_who_ends_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    may_go_on = threading.Event()

    def load(_: Tokenizer) -> Tally:
        assert may_go_on.wait(GUARD_S)
        return Tally(Words())

    counting = CountingThread(WORDS, load=load)
    counting.submit(Texts(["a"]))
    counting.finish(timeout_s=0.0)
    may_go_on.set()
    counting.finish(timeout_s=GUARD_S)

    assert "not counted when the recording ended" in caplog.text


def test_texts_are_left_where_no_thread_can_be_had_as_at_the_end_of_a_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    counting = CountingThread(WORDS, load=lambda _: Tally(Words()))
    with monkeypatch.context() as ending:
        ending.setattr(threading.Thread, "start", no_thread)
        counting.submit(Texts(["a"]))
        counting.finish(timeout_s=GUARD_S)
    assert caplog.messages == ["texts could not be counted: their sizes are estimates"]

    counting.submit(texts := Texts(["a"]))
    counting.finish(timeout_s=GUARD_S)
    assert [count.tokens for count in texts.counts] == [1]
