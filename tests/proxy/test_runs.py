"""Which run a request belongs to, and when runs end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import PATIENCE_S
from multidict import CIMultiDict

from rotoscope.proxy.runs import MOST_OPEN, Runs
from rotoscope.recorder.recorded_run import Finished, RecordedRun, begin_in


class Hands:
    """Runs in a folder, on a clock that only the test moves, and what they told."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.now_s = 100.0
        self.begun: list[RecordedRun] = []
        self.told: list[tuple[RecordedRun, str]] = []
        self._folder = folder
        self.runs = Runs(self._begin, finished=self._finished, clock=lambda: self.now_s, **options)

    def _begin(self) -> RecordedRun:
        self.begun.append(begin_in(self._folder, None))
        return self.begun[-1]

    def _finished(self, finished: Finished, name: str) -> None:
        assert isinstance(finished.run, RecordedRun)
        self.told.append((finished.run, name))

    def find(self, *, name: str = "", port: str = "", **headers: str) -> int:
        """Return the number of the run that a request belongs to, in the order in which they began."""
        lines = CIMultiDict({key.replace("_", "-"): value for key, value in headers.items()})
        run = self.runs.find(lines, name=name, port=port)
        return self.begun.index(run)


def played(folder: Path, play: Callable[[Hands], Awaitable[None]], **options: Any) -> Hands:
    """Play with runs, and end them all."""

    async def run() -> Hands:
        hands = Hands(folder, **options)
        await play(hands)
        await hands.runs.end_all()
        return hands

    return asyncio.run(run())


def test_header_comes_before_path_before_session_before_port(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        assert hands.find() == 0
        assert hands.find(port="2") == 1
        assert hands.find(port="2", session_id="s") == 2
        assert hands.find(port="2", session_id="s", name="a") == 3
        assert hands.find(port="2", session_id="s", name="a", X_Rotoscope_Run="b") == 4
        assert hands.find(X_Rotoscope_Run="a") == 3
        assert hands.find(name="b") == 4
        assert hands.find(session_id="s") == 2
        assert hands.find() == 0

    played(tmp_path, play, by_session=True)


@pytest.mark.parametrize(
    "header",
    [
        "x-claude-code-session-id",
        "session-id",
        "session_id",
        "x-dynamo-session-id",
        "x-session-id",
        "x-litellm-session-id",
        "Helicone-Session-Id",
    ],
)
def test_each_session_of_a_client_is_a_run_where_that_is_asked_for(header: str, tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        found = [hands.runs.find(CIMultiDict({header: value})) for value in ("a", "b", "a")]
        expected = 1 if not hands.runs._by_session else 2
        assert len({id(run) for run in found}) == expected
        assert found[0] is found[2]

    played(tmp_path / "by session", play, by_session=True)
    played(tmp_path / "by name", play)


def test_session_may_stand_in_the_body(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        bodies = [b'{"litellm_session_id": "%b", "messages": []}' % session for session in (b"a", b"b", b"a")]
        found = [hands.runs.find({}, body) for body in bodies]
        assert found[0] is found[2] is not found[1]
        assert hands.runs.find({}, b'{"prompt_cache_key"') is hands.runs.find({}) is not found[0]
        assert hands.runs.find({}, b'["prompt_cache_key"]') is hands.runs.find({})

    played(tmp_path, play, by_session=True)


def test_sessions_that_began_others_share_a_run_with_them_whichever_is_seen_first(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        assert hands.find(x_session_id="child", x_parent_session_id="root") == 0
        assert hands.find(x_session_id="grandchild", x_parent_session_id="child") == 0
        assert hands.find(x_session_id="root") == 0
        assert hands.find(x_session_id="other") == 1
        assert hands.find(x_session_id="child of other", x_parent_session_id="other") == 1

    played(tmp_path, play, by_session=True)


def test_run_that_began_before_takes_what_says_nothing_of_its_run(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        run = begin_in(tmp_path, None)
        hands.runs.adopt(run)

        assert hands.runs.find({}) is run
        assert hands.find(name="a") == 0

    played(tmp_path, play)


def test_named_run_ends_when_it_is_told_to_and_begins_anew(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        hands.find(name="a")
        finished = await hands.runs.end("a")

        assert finished is not None
        assert hands.told == [(hands.begun[0], "a")]
        assert await hands.runs.end("a") is None
        assert hands.find(name="a") == 1

    assert played(tmp_path, play).told[-1][1] == "a"


def test_run_ends_when_nothing_came_for_so_long(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        hands.find(name="a")
        hands.now_s += 3
        hands.find(name="b")
        assert hands.runs.next_idle_s() == pytest.approx(7)
        hands.now_s += 7
        hands.runs.begin_to_end_idle()

        assert hands.runs.open == [hands.begun[1]]
        assert hands.find(name="a") == 2

    hands = played(tmp_path, play, idle_s=10.0)
    assert {hands.begun.index(run) for run, _ in hands.told} == {0, 1, 2}


def test_run_with_an_open_request_is_not_idle(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        hands.find()
        (run,) = hands.begun
        run.began(hands.now_s)
        hands.now_s += 1000
        hands.runs.begin_to_end_idle()
        assert hands.runs.open == [run]

        run.ended(hands.now_s)
        hands.now_s += 9
        hands.runs.begin_to_end_idle()
        assert hands.runs.open == [run]
        hands.now_s += 1
        hands.runs.begin_to_end_idle()
        assert hands.runs.open == []

    played(tmp_path, play, idle_s=10.0)


def test_idle_runs_end_by_themselves(tmp_path: Path) -> None:
    async def run() -> None:
        ended = asyncio.Event()
        runs = Runs(lambda: begin_in(tmp_path, None), finished=lambda *_: ended.set(), idle_s=0.01)
        runs.find({})
        task = asyncio.create_task(runs.end_idle_ones())
        await asyncio.wait_for(ended.wait(), 30)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())


def test_end_waits_for_open_requests(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        hands.find(name="a")
        (run,) = hands.begun
        run.began(hands.now_s)
        ending = asyncio.create_task(hands.runs.end("a"))
        await asyncio.sleep(0)
        assert hands.told == []

        run.ended(hands.now_s)

        assert await ending is not None

    played(tmp_path, play)


def test_end_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        hands.find(name="a")
        hands.begun[0].began(hands.now_s)
        assert await hands.runs.end("a") is not None

        hands.begun[0].ended(hands.now_s)

    assert len(played(tmp_path, play, drain_s=0.0).told) == 1


def test_what_is_still_to_be_learnt_of_a_run_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    async def settle() -> None:
        order.append("settled")

    async def play(hands: Hands) -> None:
        hands.find()

    async def run() -> None:
        runs = Runs(lambda: begin_in(tmp_path, None), finished=lambda *_: order.append("finished"), settle=settle)
        runs.find({})
        await runs.end_all()

    asyncio.run(run())

    assert order == ["settled", "finished"]


def test_runs_that_end_together_wait_together_and_are_told_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    settling, all_there = [], asyncio.Event()

    async def settle() -> None:
        settling.append(1)
        if len(settling) == 3:
            all_there.set()
        await asyncio.wait_for(all_there.wait(), PATIENCE_S)

    async def play(hands: Hands) -> None:
        for name in "abc":
            hands.find(name=name)
        ended = await hands.runs.end_all()
        assert [finished.run for finished in ended] == hands.begun

    hands = played(tmp_path, play, settle=settle)

    assert [name for _, name in hands.told] == ["a", "b", "c"]


def test_run_that_cannot_be_told_does_not_keep_the_others_from_their_end(tmp_path: Path) -> None:
    def fails(finished: Finished, name: str) -> None:
        told.append(name)
        if name == "a":
            raise ValueError("broken")

    async def run() -> None:
        runs = Runs(lambda: begin_in(tmp_path, None), finished=fails)
        for name in "ab":
            runs.find({}, name=name)
        with pytest.raises(ValueError, match="broken"):
            await runs.end_all()

    told: list[str] = []
    asyncio.run(run())

    assert told == ["a", "b"]


def test_who_asked_for_an_end_may_leave_and_the_trace_is_written_all_the_same(tmp_path: Path) -> None:
    async def play(hands: Hands) -> None:
        hands.find(name="a")
        hands.begun[0].began(hands.now_s)
        asking = asyncio.create_task(hands.runs.end("a"))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        hands.begun[0].ended(hands.now_s)

    assert [name for _, name in played(tmp_path, play).told] == ["a"]


def test_too_many_open_runs_let_the_quietest_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(hands: Hands) -> None:
        for number in range(MOST_OPEN):
            hands.find(name=str(number))
            hands.now_s += 1
        hands.begun[0].began(hands.now_s)
        hands.find(name="one more")

        assert len(hands.runs.open) == MOST_OPEN
        assert hands.begun[0] in hands.runs.open
        assert hands.begun[1] not in hands.runs.open
        hands.find(name="and another")
        assert hands.begun[2] not in hands.runs.open
        hands.begun[0].ended(hands.now_s)

    assert len(played(tmp_path, play).told) == MOST_OPEN + 2
    (said,) = caplog.messages
    assert said == f"{MOST_OPEN} runs are open: whenever another begins, the one that is quiet for longest ends"
