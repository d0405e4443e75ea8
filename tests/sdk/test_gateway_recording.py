"""Agents that tell a gateway of themselves, from their processes to the traces."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rotoscope_process import clean_environment, ended, rotoscope
from simulated import simulated

from rotoscope.proxy.door import Door
from rotoscope.proxy.standing import Standing, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.recorded_run import Finished
from rotoscope.replayer.simulator.model import Answer, ModelRequest
from rotoscope.replayer.simulator.model import ToolCall as Asked
from rotoscope.traces.canary import Canaries
from rotoscope.traces.model import Call, ParallelEnd, ParallelStart, ToolCall, Trace, Wait
from rotoscope.traces.reader import load

CANARY = "canary-93c1d4"

AGENTS = """
import json, multiprocessing, os, subprocess, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
from rotoscope import current_run, instrument, parallel, trace_agent, trace_tool, wait

WAY = sys.argv[1]

def ask(messages):
    body = {"model": "rotoscope-simulator", "messages": messages, "max_tokens": 20, "temperature": 0}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    if WAY == "httpx2":
        import httpx2
        message = httpx2.post(url, json=body, verify=False).json()["choices"][0]["message"]
    else:
        told = current_run().headers() if WAY == "by hand" else {}
        headers = {"Content-Type": "application/json", **told}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            message = json.load(answer)["choices"][0]["message"]
    messages.append({"role": "assistant", "content": message.get("content") or "",
                     **({"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {})})
    return messages[-1]

def begun(who, text):
    return [{"role": "system", "content": who + " at your best " * 20}, {"role": "user", "content": text}]

@trace_tool(name="toolbox.CANARY-search")
def search(query):
    return "CANARY-found"

@trace_agent(name="CANARY-researcher")
def research(topic):
    messages = begun("research", topic)
    for call in ask(messages)["tool_calls"]:
        result = search(call["function"]["arguments"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return ask(messages)["content"]

@trace_agent(name="CANARY-supervisor")
def supervise(task):
    messages = begun("supervise", task)
    ask(messages)
    with parallel("CANARY-fan") as fan:
        def one(topic):
            with fan.branch("CANARY-branch"):
                return research(topic)
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(one, ["CANARY-1", "CANARY-2"]))
    with wait("human"):
        pass
    messages.append({"role": "user", "content": "go on"})
    ask(messages)
    research("CANARY-3")
    messages.append({"role": "user", "content": "and now"})
    ask(messages)
    print("done")

def supervise_one():
    supervise("CANARY-task")

def two_at_once():
    with ThreadPoolExecutor() as pool:
        list(pool.map(research, ["CANARY-4", "CANARY-5"]))

def research_one():
    research("CANARY-6")

def research_there(environment):
    os.environ.update(environment)  # before the first agent of this process
    research_one()

@trace_tool
def by_subprocess():
    command = [sys.executable, __file__, WAY, "research_one"]
    subprocess.run(command, env={**os.environ, **current_run().environment()}, check=True)

@trace_tool
def by_spawn():
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=research_there, args=(current_run().environment(),))
    process.start()
    process.join()

@trace_tool
def by_fork():
    current_run().environment()  # tells that this is no tool
    process = multiprocessing.get_context("fork").Process(target=research_one)
    process.start()
    process.join()

@trace_agent
def lose_three():
    from rotoscope.sdk import sending
    ask(begun("supervise", "CANARY-8"))
    search("CANARY-9")
    sending.MOST_WAITING = 0  # and no room for more
    search("CANARY-9")
    search("CANARY-9")
    global kept
    kept = never_end()
    next(kept)

@trace_agent
def never_end():
    yield

@trace_agent
def elsewhere():
    messages = begun("supervise", "CANARY-7")
    ask(messages)
    for begin in (by_subprocess, by_spawn, by_fork):
        begin()
        messages.append({"role": "user", "content": "go on"})
        ask(messages)

if __name__ == "__main__":
    globals()[sys.argv[2]]()
""".replace("CANARY", CANARY)


def model(request: ModelRequest) -> Answer:
    """Ask a researcher for a search first."""
    system, *_, last = request.messages
    if system.content.startswith("research") and last.role == "user":
        return Answer(tool_calls=(Asked(f"{CANARY}-search", "{}"),))
    return Answer(text="a b c")


def command(folder: Path, *arguments: str) -> list[str]:
    """Return the command that runs agents; `arguments` say how they call, and which function is run."""
    script = folder / "agents.py"
    script.write_text(AGENTS)
    return [sys.executable, str(script), *arguments]


def recorded(folder: Path, *arguments: str, options: Sequence[str] = ()) -> tuple[str, str]:
    """Run agents under `rotoscope record` before the simulator, into `out`; return what was printed."""

    async def run() -> tuple[str, str]:
        out, agents = str(folder / "out"), command(folder, *arguments)
        async with (
            simulated(model) as client,
            rotoscope("record", "--upstream", client.url, "-o", out, *options, "--", *agents) as process,
        ):
            done = await ended(process)
            assert done.status == 0, done.err
            return done.out, done.err

    return asyncio.run(run())


def proxied(folder: Path, *arguments: str, token: str = "") -> list[Finished]:
    """Run agents that know of a standing gateway; return the runs that had ended when the agents had."""
    finished: list[Finished] = []

    async def run() -> list[Finished]:
        async with simulated(model) as client:
            how = Standing(upstream_given(client.url), folder / "out", Campaign(), door=Door(token))
            async with standing(how, finished=lambda one, _: finished.append(one)) as stood:
                base_url = f"{stood.gateway.origin}/v1"
                environment = {"OPENAI_BASE_URL": base_url, "ROTOSCOPE_GATEWAY": base_url, "ROTOSCOPE_TOKEN": token}
                process = await asyncio.create_subprocess_exec(
                    *command(folder, *arguments), env=clean_environment(**environment)
                )
                assert await process.wait() == 0
                return list(finished)

    return asyncio.run(run())


def shape(trace: Trace | None) -> dict[tuple[int, int] | None, list[str]]:
    """Return what happened on each branch, without sizes and times."""
    assert trace is not None
    found: dict[tuple[int, int] | None, list[str]] = {}
    for event in trace.events:
        happened = ""
        match event:
            case Call():
                happened = "call"
            case ToolCall():
                happened = f"tool by {event.time_source}" + (" that was asked for" if event.call is not None else "")
            case ParallelStart():
                happened = f"fork of {event.num_branches} by {event.evidence}"
            case ParallelEnd():
                happened = "join"
            case Wait(kind="human"):
                happened = "human"
        if happened:
            found.setdefault(event.branch, []).append(happened)
    return found


RESEARCH = ["call", "tool by sdk that was asked for", "call"]
SUPERVISE = {
    None: ["call", "fork of 2 by own", "join", "human", "call", "fork of 1 by own", "join", "call"],
    (0, 0): RESEARCH,
    (0, 1): RESEARCH,
    (1, 0): RESEARCH,
}


def test_agents_tools_waits_and_regions_under_record_are_as_the_agent_tells(tmp_path: Path) -> None:
    out, _ = recorded(tmp_path, "httpx2", "supervise_one")

    assert out == "done\n"
    trace = load(tmp_path / "out" / "run-0001.trace.json")
    assert shape(trace) == SUPERVISE


def test_what_agents_lost_and_did_not_end_is_said_beside_the_trace(tmp_path: Path) -> None:
    _, err = recorded(tmp_path, "by hand", "lose_three")

    assert err.splitlines()[-2:] == [
        "rotoscope: in the agent: marks that did not reach the gateway: 3; agents that have not ended: 1",
        f"rotoscope: trace: {tmp_path / 'out' / 'run-0001.trace.json'}",
    ]


def test_by_hand_it_is_the_same_and_no_name_and_nothing_said_reaches_a_file_but_that_of_names(tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    _, err = recorded(tmp_path, "by hand", "supervise_one", options=["--names", str(names)])

    assert shape(load(tmp_path / "out" / "run-0001.trace.json")) == SUPERVISE
    assert f"{CANARY}-search" in names.read_text()
    assert Canaries.of([CANARY]).in_tree(tmp_path / "out") == []
    assert CANARY not in err


def test_calls_of_a_client_that_tells_nothing_are_linked_by_what_they_say_and_tools_are_there(tmp_path: Path) -> None:
    recorded(tmp_path, "unknown", "supervise_one")

    found = [one for happened in shape(load(tmp_path / "out" / "run-0001.trace.json")).values() for one in happened]
    assert found.count("call") == 9
    assert len([one for one in found if one.startswith("tool by sdk")]) == 3


def test_agents_of_a_standing_gateway_have_a_trace_each_when_they_have_ended(tmp_path: Path) -> None:
    runs = proxied(tmp_path, "httpx2", "two_at_once", token="a-token-of-16-characters")

    assert [shape(run.trace) for run in runs] == [{None: RESEARCH}] * 2


def test_agents_of_other_processes_stand_below_the_one_that_began_them(tmp_path: Path) -> None:
    [run] = proxied(tmp_path, "by hand", "elsewhere")

    elsewhere = ["call", *["fork of 1 by own", "join", "call"] * 3]
    assert shape(run.trace) == {None: elsewhere, (0, 0): RESEARCH, (1, 0): RESEARCH, (2, 0): RESEARCH}


def test_under_record_they_do_so_too(tmp_path: Path) -> None:
    recorded(tmp_path, "by hand", "elsewhere")

    trace = load(tmp_path / "out" / "run-0001.trace.json")
    assert sorted(shape(trace), key=str) == [(0, 0), (1, 0), (2, 0), None]
