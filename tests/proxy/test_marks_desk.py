"""What agents tell, on the wire and on the way into the recorder."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from loopback import CHAT, WHOLE, chat_answer, serving
from pydantic import ValidationError

from rotoscope.proxy.door import Door
from rotoscope.proxy.marks_desk import MOST_BYTES, MOST_CHARS, MOST_MARKS, read_batch, take
from rotoscope.proxy.standing import Standing, Stood, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder import Recorder
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.recorded_run import Finished, Run
from rotoscope.recorder.telling import about_in_one_line
from rotoscope.traces.canary import Canaries
from rotoscope.traces.journal import BranchBegan, RegionJoined, ToolRan, Waited
from rotoscope.traces.journal_files import JournalWriter, parse_journal
from rotoscope.traces.model import ToolCall

MARKS = "/_rotoscope/marks"
CANARY = "canary-51b7e0"
TOKEN = "a-token-of-16-characters"

TOOL = {"mark": "tool", "name": "search", "thread": "a", "start_s": 5.0, "end_s": 6.5}
WAIT = {"mark": "wait", "kind": "human", "thread": "a", "start_s": 6.5, "end_s": 7}
BRANCH = {"mark": "branch", "thread": "b", "parent": "a", "region": "r", "start_s": 7.0}
JOIN = {"mark": "join", "region": "r", "end_s": 8.0}


def batch_of(*marks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"teller": "t", "batch": 0, "now_s": 10.0, "marks": list(marks), **changes}


class Heard:
    """A run whose journal is read."""

    def __init__(self) -> None:
        self.journal = BytesIO()
        self.run = Run(Recorder(JournalWriter(self.journal)))

    def take(self, *marks: dict[str, Any], received_s: float = 10.0, is_here: bool = True, **changes: Any) -> int:
        batch = read_batch(json.dumps(batch_of(*marks, **changes)).encode())
        return take(self.run, batch, received_s, is_here=is_here)

    @property
    def records(self) -> list[Any]:
        marks = (ToolRan, Waited, BranchBegan, RegionJoined)
        return [one for one in parse_journal(self.journal.getvalue()).records if isinstance(one, marks)]


def test_every_kind_of_mark_reaches_the_journal() -> None:
    heard = Heard()

    assert heard.take(TOOL, WAIT, BRANCH, JOIN) == 4

    tool, waited, began, joined = heard.records
    assert (tool.at_ms, tool.duration_ms) == (0.0, 1500.0)
    assert (waited.kind, waited.at_ms, waited.duration_ms) == ("human", 1500.0, 500.0)
    assert (began.parent, began.at_ms) == (tool.thread, 2000.0)
    assert (joined.region, joined.at_ms) == (began.region, 3000.0)


def test_batch_that_comes_again_counts_once_and_another_process_counts_its_own() -> None:
    heard = Heard()

    taken = [
        heard.take(TOOL),
        heard.take(TOOL),
        heard.take(TOOL, batch=1),
        heard.take(TOOL, batch=0),
        heard.take(TOOL, teller="u"),
    ]

    assert taken == [1, 0, 1, 0, 1]
    assert len(heard.records) == 3


def test_what_was_lost_counts_once_a_batch() -> None:
    heard = Heard()

    heard.take(TOOL, lost={"marks": 2})
    heard.take(TOOL, lost={"marks": 2})
    heard.take(batch=1, lost={"marks": 1, "spans": 4})
    heard.take(teller="u", lost={"marks": 1})

    assert heard.run.lost == {"marks": 4, "spans": 4}


def test_clock_of_this_machine_is_ours_however_long_the_batch_took() -> None:
    heard = Heard()
    heard.run.recorder.request(CHAT, json.dumps(WHOLE).encode(), at_s=4.0)

    heard.take(TOOL, now_s=10.0, received_s=30.0)

    assert [one.at_ms for one in heard.records] == [1000.0]


@pytest.mark.parametrize(("is_here", "ahead_s"), [(False, 1000.0), (True, 1000.0), (True, -1000.0), (False, -1000.0)])
def test_another_clock_is_set_by_the_quickest_batch(ahead_s: float, is_here: bool) -> None:
    heard = Heard()
    heard.run.recorder.request(CHAT, json.dumps(WHOLE).encode(), at_s=4.0)
    shifted = TOOL | {"start_s": 5.0 + ahead_s, "end_s": 6.5 + ahead_s}

    for batch, transit_s in enumerate((3.0, 0.5, 2.0)):
        now_s = 10.0 + batch
        heard.take(shifted, batch=batch, now_s=now_s + ahead_s, received_s=now_s + transit_s, is_here=is_here)

    assert [one.at_ms for one in heard.records] == pytest.approx([4000.0, 1500.0, 1500.0])


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[1]",
        b"\xff",
        b'{"teller": "t", "batch": 0, "now_s": NaN, "marks": []}',
        batch_of(now_s=True),
        batch_of(now_s=1e300),
        batch_of(batch=-1),
        batch_of(batch="0"),
        batch_of(teller=None),
        batch_of(TOOL | {"mark": "canary"}),
        batch_of(TOOL | {"name": 5}),
        batch_of(TOOL | {"name": "x" * (MOST_CHARS + 1)}),
        batch_of(TOOL | {"extra": 1}),
        batch_of(TOOL | {"end_s": "6"}),
        batch_of({"mark": "tool"}),
        batch_of(WAIT | {"kind": "lunch"}),
        batch_of(*[JOIN] * (MOST_MARKS + 1)),
        batch_of(extra=1),
        batch_of(lost={"canary": 1}),
        batch_of(lost={"marks": -1}),
        batch_of(lost={"marks": True}),
        batch_of(lost=[]),
    ],
)
def test_what_is_no_batch_is_refused_whole(bad: Any) -> None:
    with pytest.raises(ValidationError):
        read_batch(bad if isinstance(bad, bytes) else json.dumps(bad).encode())


async def answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    return web.json_response(chat_answer())


def played(
    folder: Path, play: Callable[[aiohttp.ClientSession, Stood], Awaitable[None]], **options: Any
) -> list[Finished]:
    """Play with a gateway in front of a server; return its runs."""
    ended: list[Finished] = []

    async def run() -> None:
        async with serving(answer) as origin:
            how = Standing(upstream_given(origin), folder, Campaign(), **options)
            async with (
                standing(how, finished=lambda one, _: ended.append(one)) as stood,
                aiohttp.ClientSession(stood.gateway.origin) as client,
            ):
                await play(client, stood)

    asyncio.run(run())
    return ended


async def told(client: aiohttp.ClientSession, body: Any, path: str = MARKS, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.post(path, data=BytesIO(data), headers=headers) as answer:
        return answer.status, await answer.json()


def test_marks_may_come_before_the_first_call_and_reach_the_run_of_their_name(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood) -> None:
        assert await told(client, batch_of(TOOL), **{"x-rotoscope-run": "one"}) == (200, {"taken": 1})
        assert await told(client, batch_of(TOOL, TOOL), path=f"/run/two{MARKS}") == (200, {"taken": 2})
        for name in ("one", "two"):
            headers = {"x-rotoscope-branch": "a"}
            await (await client.post(f"/run/{name}{CHAT}", json=WHOLE, headers=headers)).read()
        assert (len(stood.runs.open), stood.runs.marks) == (2, 3)
        assert stood.gateway.requests == 2

    traces = [one.trace for one in played(tmp_path, play)]

    tools = [[x for x in trace.events if isinstance(x, ToolCall)] for trace in traces if trace]
    assert [[x.time_source for x in told] for told in tools] == [["sdk"], ["sdk", "sdk"]]


def test_no_run_begins_for_what_was_lost_and_the_one_that_is_open_is_told(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood) -> None:
        lost = batch_of(lost={"marks": 3})
        status, error = await told(client, lost)
        assert (status, error["error"]["message"]) == (404, "rotoscope: the run that something was lost of is not open")
        assert stood.runs.open == []
        await (await client.post(CHAT, json=WHOLE)).read()
        assert await told(client, lost) == (200, {"taken": 0})

    [finished] = played(tmp_path, play)

    assert about_in_one_line(finished).endswith("(in the agent: marks that did not reach the gateway: 3)")


def test_run_of_marks_alone_leaves_nothing(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        await told(client, batch_of(TOOL, BRANCH, JOIN))

    [finished] = played(tmp_path, play)

    assert (finished.trace, finished.trouble) == (None, "")
    assert list(tmp_path.iterdir()) == []


def test_mark_is_life_of_a_run(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood) -> None:
        await (await client.post(CHAT, json=WHOLE)).read()
        [run] = stood.runs.open
        run.last_s = 0.0
        await told(client, batch_of(TOOL))
        assert run.last_s > 0.0

    played(tmp_path, play)


def test_bad_batch_is_told_where_it_is_wrong_and_hurts_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []

    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        assert (await told(client, batch_of(TOOL)))[0] == 200
        for bad in (
            batch_of(WAIT, TOOL | {"start_s": CANARY}),
            batch_of(TOOL | {CANARY: 1}),
            batch_of(lost={CANARY: 1}),
            batch_of(TOOL | {"mark": CANARY}),
            CANARY.encode(),
        ):
            status, error = await told(client, bad)
            assert status == 400
            said.append(error["error"]["message"])
        status, error = await told(client, b" " * (MOST_BYTES + 1))
        assert (status, error["error"]["message"]) == (413, "rotoscope: a batch of marks has at most 1,048,576 bytes")
        await (await client.post(CHAT, json=WHOLE)).read()

    [finished] = played(tmp_path, play)

    assert said[0] == "rotoscope: this is no batch of marks: marks.1.tool.start_s: float type"
    assert finished.trace is not None
    assert len([x for x in finished.trace.events if isinstance(x, ToolCall)]) == 1
    assert Canaries.of([CANARY]).in_text(caplog.text + "".join(said)) == []


def test_names_in_marks_reach_no_file_and_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    names = [f"{CANARY}-{word}" for word in ("tool", "thread", "branch", "region", "teller", "run")]
    tool, thread, branch, region, teller, run = names

    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        marks = (
            TOOL | {"name": tool, "thread": thread},
            BRANCH | {"thread": branch, "parent": thread, "region": region},
            JOIN | {"region": region},
        )
        headers = {"x-rotoscope-run": run, "x-rotoscope-branch": thread}
        assert (await told(client, batch_of(*marks, teller=teller), **headers))[0] == 200
        await (await client.post(CHAT, json=WHOLE, headers=headers)).read()
        assert Canaries.of(names).in_tree(tmp_path) == []  # the journal, too

    [finished] = played(tmp_path, play)

    assert finished.trace is not None
    assert Canaries.of(names).in_tree(tmp_path) == []
    assert Canaries.of(names).in_text(caplog.text) == []


def test_gateway_with_a_token_wants_it_here_too(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        assert (await told(client, batch_of(TOOL)))[0] == 401
        assert (await told(client, batch_of(TOOL), **{"x-rotoscope-token": TOKEN}))[0] == 200
        assert (await told(client, batch_of(TOOL, batch=1), path=f"/token/{TOKEN}{MARKS}"))[0] == 200
        assert (await told(client, batch_of(TOOL), Origin="https://example.com"))[0] == 401

    played(tmp_path, play, door=Door(TOKEN))


async def asked(client: aiohttp.ClientSession, branch: str) -> None:
    await (await client.post(f"/run/one{CHAT}", json=WHOLE, headers={"x-rotoscope-branch": branch})).read()


async def ended_by_name(client: aiohttp.ClientSession) -> tuple[int, Any]:
    async with client.post("/_rotoscope/runs/one/end") as answer:
        return answer.status, await answer.json()


def test_a_run_with_an_agent_at_work_behind_its_outermost_one_stays_open_until_that_is_done(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood) -> None:
        await asked(client, "a")
        await told(client, batch_of(BRANCH | {"start_s": 10.0}), path=f"/run/one{MARKS}")
        assert await ended_by_name(client) == (202, {"trace": None, "calls": 0, "failed": False, "at_work": True})
        await asked(client, "b")
        await asked(client, "b")
        assert len(stood.runs.open) == 1
        tool = TOOL | {"thread": "b", "start_s": 10.5, "end_s": 11.0}
        await told(client, batch_of(tool, JOIN | {"end_s": 12.0}, batch=1), path=f"/run/one{MARKS}")
        assert stood.runs.open == []

    (finished,) = played(tmp_path, play)

    assert finished.trace is not None
    assert [call.branch for call in finished.trace.calls()] == [None, (0, 0), (0, 0)]
    assert [x.branch for x in finished.trace.events if isinstance(x, ToolCall)] == [(0, 0)]
    assert [path.name for path in tmp_path.iterdir()] == ["run-0001.trace.json"]


def test_a_run_with_agents_at_work_ends_at_once_when_it_is_ended_again(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood) -> None:
        await asked(client, "a")
        await told(client, batch_of(BRANCH), path=f"/run/one{MARKS}")
        assert (await ended_by_name(client))[0] == 202
        assert await ended_by_name(client) == (200, {"trace": "run-0001.trace.json", "calls": 1, "failed": False})
        assert stood.runs.open == []

    assert len(played(tmp_path, play)) == 1


def test_a_run_of_which_marks_were_lost_waits_for_nobody(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        await asked(client, "a")
        await told(client, batch_of(BRANCH, lost={"marks": 1}), path=f"/run/one{MARKS}")
        assert (await ended_by_name(client))[0] == 200

    assert len(played(tmp_path, play)) == 1


@pytest.mark.parametrize("marks", [(BRANCH, JOIN), (JOIN, BRANCH)], ids=["joined", "begun when it was joined"])
def test_a_run_whose_agents_are_done_ends_when_it_is_ended(marks: tuple[Any, ...], tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        await asked(client, "a")
        for number, mark in enumerate(marks):
            await told(client, batch_of(mark, batch=number), path=f"/run/one{MARKS}")
        assert (await ended_by_name(client))[0] == 200

    assert len(played(tmp_path, play)) == 1
