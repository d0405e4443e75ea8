"""The scripts of the labelled corpus (`labelled_runs.py`), by pattern: each function writes one run, or one a variant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chat_wire import assistant, system, user
from labelled_runs import TOOLS, Agent, Script

SUMMARY = "So far the files were read, two defects were found in them, and one was mended; the other is still there."


SCRIPTS: dict[str, Callable[[], Script]] = {}
"""By pattern and number."""


def scripted(*variants: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function that writes a script, once for each variant of its argument."""

    def register(write: Callable[..., None]) -> Callable[..., None]:
        for variant in variants or (None,):

            def make(variant: Any = variant) -> Script:
                script = Script()
                write(script, *(() if variant is None else (variant,)))
                return script

            name = write.__name__.replace("_", " ")
            SCRIPTS[name if variant is None else f"{name}: {variant}"] = make
        return write

    return register


@scripted(1, 2, 6)
def growth(script: Script, turns: int) -> None:
    script.agent("main").work([(2.0 * x, 2.0 * x + 1) for x in range(turns)])


@scripted("people", "one tool", "three tools", "no instructions")
def conversation(script: Script, kind: str) -> None:
    main = script.agent("main", instructions="" if kind == "no instructions" else "You are an agent.")
    for turn in range(4):
        main.ask(3.0 * turn, 3.0 * turn + 1, asks={"one tool": 1, "three tools": 3}.get(kind, 0))
        main.results()
        if not kind.endswith(("tool", "tools")):
            main.tell(f"And then {turn}?")
    main.ask(20, 21)


@scripted("kept", "dropped", "hidden answer")
def thinking(script: Script, kind: str) -> None:
    main = script.agent("main")
    for turn in range(4):
        main.ask(3.0 * turn, 3.0 * turn + 1, asks=1, thinking=f"I think {turn}", keeps_thinking=kind == "kept")
        main.results()
    main.ask(20, 21)


@scripted("instructions", "tools", "model")
def changing(script: Script, what: str) -> None:
    main = script.agent("main")
    for turn in range(4):
        if what == "instructions":
            main.messages[0] = system(f"You are an agent. It is {turn} o'clock.")
        elif what == "tools":
            main.tools = TOOLS[: 2 + turn]
        else:
            main.model = f"m{turn % 2}"
        main.ask(3.0 * turn, 3.0 * turn + 1, asks=1)
        main.results()
    main.ask(20, 21)


@scripted("trimmed", "with a remark")
def answers_written_anew(script: Script, kind: str) -> None:
    main = script.agent("main")
    for turn in range(3):
        main.ask(
            3.0 * turn, 3.0 * turn + 1, rewritten=f"I say something {turn}" if kind == "trimmed" else f"Remark. {turn}"
        )
        main.tell(f"Next {turn}")
    main.ask(20, 21)


@scripted("same instructions", "own instructions", "after tools", "twice")
def compaction(script: Script, kind: str) -> None:
    main = script.agent("main")
    at = 0.0
    for round_number in range(2 if kind == "twice" else 1):
        for _ in range(4):
            main.ask(at, at + 1, asks=1)
            main.results()
            at += 2
        if kind != "after tools":
            main.ask(at, at + 1)
        history, sources = list(main.messages), list(main.sources)
        if kind == "own instructions":
            main.messages[0] = system("You sum up conversations.")
        main.tell("Sum up all of it.")
        main.ask(at + 2, at + 3, text=f"{SUMMARY} {round_number}")
        main.messages, main.sources = history[:1], sources[:1]
        main.tell(f"This goes on from an earlier conversation: {SUMMARY} {round_number}. Go on.")
        at += 5
    main.work([(at, at + 1), (at + 2, at + 3), (at + 4, at + 5)])


@scripted("oldest messages", "old results")
def context_edits(script: Script, what: str) -> None:
    main = script.agent("main")
    for turn in range(6):
        main.ask(3.0 * turn, 3.0 * turn + 1, asks=1)
        main.results()
        if what == "oldest messages" and len(main.messages) > 7:
            del main.messages[2:4], main.sources[2:4]
        elif what == "old results" and turn > 2:
            main.messages[2 * turn - 3] = main.messages[2 * turn - 3] | {"content": "[cleared]"}
    main.ask(30, 31)


@scripted(2, 4, 6)
def rewind(script: Script, length: int) -> None:
    main = script.agent("main")
    for turn in range(3):
        main.ask(3.0 * turn, 3.0 * turn + 1)
        main.tell(f"And then {turn}?")
    main.cut(length + (length > 2) - 1 if length > 2 else 1)
    main.tell("Another way, please.")
    main.ask(20, 21)
    main.tell("Go on.")
    main.ask(23, 24)


@scripted("question", "result", "answer")
def edit(script: Script, what: str) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=1)
    main.results()
    main.ask(2, 3)
    main.tell("And then?")
    main.ask(4, 5)
    if what == "question":
        main.cut(5)
        main.tell("And what else?")
    elif what == "result":
        main.cut(3)
        main.pending = ["0.0"]
        main.results("another result")
    else:
        main.cut(4)
        main.put(assistant("What I would rather have said."))
        main.tell("And then?")
    main.ask(10, 11)
    main.tell("Go on.")
    main.ask(12, 13)


@scripted("refused", "reset", "broken")
def retry(script: Script, how: str) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=1)
    main.results()
    main.ask(2, 2.1, how=how)  # type: ignore[arg-type]
    main.ask(3, 3.1, how=how)  # type: ignore[arg-type]
    main.ask(4, 5, asks=1)
    main.results()
    main.ask(6, 7)


@scripted("refused", "broken")
def retry_beside_a_sibling(script: Script, how: str) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=2)
    one, other = (script.agent(f"sub {x}", main, task="Look for it.") for x in range(2))
    one.ask(2, 2.2, how=how)  # type: ignore[arg-type]
    other.ask(2.1, 4, text="It is on the left.")
    one.ask(3, 5, text="It is on the right.")
    main.results()
    main.ask(6, 7)


@scripted("first", "second", "at the start", "none cancelled")
def hedge(script: Script, kind: str) -> None:
    main = script.agent("main")
    if kind != "at the start":
        main.ask(0, 1, asks=1)
        main.results()
    loser_start, winner_start = (2.5, 2.0) if kind == "second" else (2.0, 2.5)
    if kind == "none cancelled":
        main.ask(loser_start, 4.5, line="duplicate", text="Another answer, which nobody reads.")
    else:
        main.ask(loser_start, 4.1, line="duplicate", how="cancelled")
    main.ask(winner_start, 4, asks=1)
    main.results()
    main.ask(6, 7, asks=1)
    main.results()
    main.ask(8, 9)


@scripted("same prompt", "other prompt", "three times")
def cancelled(script: Script, kind: str) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=1)
    main.results()
    for attempt in range(2 if kind == "three times" else 1):
        main.ask(2 + attempt, 2.5 + attempt, how="cancelled")
    if kind == "other prompt":
        main.tell("Stop. Do something else.")
    main.ask(5, 6, asks=1)
    main.results()
    main.ask(7, 8)


@scripted("beside", "before", "behind", "inside a gap", "other model", "with history")
def side_call(script: Script, when: str) -> None:
    main = script.agent("main")
    start, end = {"before": (0.0, 0.5), "behind": (9.0, 10.0), "inside a gap": (2.2, 2.8)}.get(when, (1.2, 1.8))
    fields = {"model": "small"} if when == "other model" else {}
    if when != "with history":
        main.side("title", "Make a title.", start, end, **fields)
    main.ask(1, 2, asks=1)
    main.results()
    if when == "with history":
        main.tell("Make a title of that.")
        main.ask(2.5, 2.8, line="title", is_aside=True, tools=None)
        main.cut(len(main.messages) - 1)
    main.ask(3, 4, asks=1)
    main.results()
    main.ask(5, 6)


@scripted(1, 2, 3, 5)
def fan_out(script: Script, count: int) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=count)
    for index in range(count):
        at = 2 + 0.1 * index
        agent = script.agent(f"sub {index}", main, instructions="You help.")
        agent.work([(at, at + 1), (at + 1.5, at + 2.5), (at + 3, at + 4)])
    main.results()
    main.ask(10, 11, asks=1)
    main.results()
    main.ask(12, 13)


@scripted("same instructions", "beside a tool", "twice", "no tools of their own")
def fan_out_and_join(script: Script, kind: str) -> None:
    main = script.agent("main")
    at = 0.0
    for _ in range(2 if kind == "twice" else 1):
        main.ask(at, at + 1, asks=3 if kind == "beside a tool" else 2)
        for index in range(2):
            instructions = main.instructions if kind == "same instructions" else "You help."
            tools = None if kind == "no tools of their own" else TOOLS
            agent = script.agent(f"sub {index} {at}", main, instructions=instructions, tools=tools)
            agent.work([(at + 2 + index, at + 3 + index), (at + 4 + index, at + 5 + index)])
        main.results()
        at += 10
    main.ask(at, at + 1)


@scripted(2, 3)
def nested(script: Script, depth: int) -> None:
    def go(agent: Agent, start: float, length: float, level: int) -> None:
        if level == 0:
            agent.work([(start, start + length / 4), (start + length / 2, start + length)])
            return
        agent.ask(start, start + length / 10, asks=2)
        for index in range(2):
            child = script.agent(f"{agent.name}.{index}", agent, instructions=f"You help at level {level}.")
            go(child, start + length * (0.2 + 0.02 * index), length * 0.5, level - 1)
        agent.results()
        agent.ask(start + length * 0.8, start + length)

    go(script.agent("main"), 0.0, 1000.0, depth)


@scripted("agents", "agents that use tools")
def one_after_another(script: Script, kind: str) -> None:
    main = script.agent("main")
    for turn in range(3):
        at = 10.0 * turn
        main.ask(at, at + 1, asks=1)
        agent = script.agent(f"sub {turn}", main, instructions="You help.", task=f"Part {turn}")
        agent.work([(at + 2, at + 3), (at + 4, at + 5)] if kind == "agents that use tools" else [(at + 2, at + 4)])
        main.results()
    main.ask(40, 41)


@scripted()
def in_the_background(script: Script) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=1)
    agent = script.agent("sub", main, instructions="You help.")
    agent.work([(2, 4), (5, 9), (10, 14)])
    main.results()
    main.ask(2.5, 3.5, asks=1)
    main.results()
    main.ask(6, 7, asks=1)
    main.results()
    main.ask(16, 17)


@scripted(
    "same answers", "all alike", "other answers", "staggered", "five", "crossed", "five, crossed", "one cancelled"
)
def identical_siblings(script: Script, kind: str) -> None:
    main = script.agent("main")
    count = 5 if kind.startswith("five") else 2
    main.ask(0, 1, asks=count)
    agents = [script.agent(f"sub {x}", main, instructions="You help.", task="Look for it.") for x in range(count)]
    for index, agent in enumerate(agents):
        shift = 1.5 * index if kind == "staggered" else 0.01 * index
        text = f"I look, says {index}." if kind == "other answers" else "I look."
        if kind == "one cancelled" and index == 0:
            agent.ask(1.5, 2.1, how="cancelled")
        agent.ask(2.2 + shift, 3 + shift, asks=1, text=text)
        agent.results("It is here." if kind == "all alike" else f"It is at {index}.")
        shift = -shift if kind.endswith("crossed") else shift
        agent.ask(4 + shift, 5 + shift, asks=1, text="I look again.")
        agent.results("Found." if kind == "all alike" else f"Found {index}.")
        agent.ask(6 + shift, 7 + shift, text="Done.")
    main.results()
    main.ask(20, 21)


@scripted("one beside another", "one behind another", "and the main line goes on")
def fork_of_a_history(script: Script, kind: str) -> None:
    main = script.agent("main")
    main.ask(0, 1)
    for index in range(2):
        agent = main.fork(f"fork {index}", parent=main)
        agent.tell(f"Try way {index}.")
        at = 2.0 + (5 * index if kind == "one behind another" else 0.1 * index)
        agent.work([(at, at + 1), (at + 2, at + 3)])
    if kind == "and the main line goes on":
        main.tell("Go on.")
        main.ask(2.5, 4)
    main.tell("Put together what was found.")
    main.ask(20, 21)


@scripted("with results", "and one result for the main line")
def fork_inside_a_tool(script: Script, kind: str) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=1)
    agent = main.fork("fork", parent=main)
    agent.pending = list(main.pending)
    agent.results("You are the fork. Do the part that was asked for.")
    agent.work([(2, 3), (4, 5)])
    main.results("The fork did it." if kind == "with results" else "Done.")
    main.work([(7, 8), (9, 10)])


@scripted("long task", "short task", "after tools")
def next_task(script: Script, kind: str) -> None:
    for index in range(3):
        task = f"Task {index}. " + "It has to be done with much care. " * (9 if kind == "long task" else 0)
        agent = script.agent(f"task {index}", task=task, session="s" if index == 0 else f"s{index}")
        at = 20.0 * index
        agent.work([(at, at + 1), (at + 2, at + 3), (at + 4, at + 5)])


@scripted("in order", "crossed")
def same_beginnings(script: Script, kind: str) -> None:
    people = [script.agent(f"person {x}", task="Hello", session="s" if x == 0 else f"s{x}") for x in range(3)]
    for index, person in enumerate(people):
        person.ask(0.1 * index, 1 + 0.1 * index, text="Hello, how can I help you today?")
    for index, person in enumerate(reversed(people) if kind == "crossed" else people):
        person.tell(f"I am {person.name}.")
        person.ask(3 + 0.1 * index, 4 + 0.1 * index)
        person.tell("Thank you.")
        person.ask(6 + 0.1 * index, 7 + 0.1 * index)


@scripted()
def back_and_forth(script: Script) -> None:
    main = script.agent("main")
    for turn in range(3):
        main.ask(3.0 * turn, 3.0 * turn + 1)
        main.tell(f"And then {turn}?")
    other = main.fork("main way", parent=main)
    other.cut(3)
    other.tell("Or rather so?")
    other.ask(20, 21)
    main.ask(22, 23)
    other.tell("And now?")
    other.ask(24, 25)
    main.tell("And now?")
    main.ask(26, 27)


@scripted("pipeline", "batch", "the same task again", "one prompt, many answers")
def unrelated_calls(script: Script, kind: str) -> None:
    for index in range(4):
        if kind == "pipeline":
            agent = script.agent(
                f"stage {index}", instructions=f"You are stage {index}.", tools=None, session=f"s{index}"
            )
            agent.ask(2.0 * index, 2.0 * index + 1)
        elif kind == "batch":
            shots = [
                system("You label."),
                user("x"),
                assistant("This is an example of a label."),
                user(f"item {index}"),
            ]
            agent = script.agent(f"item {index}", messages=shots, sources=[None] * 4, tools=None, session=f"s{index}")
            agent.ask(0.1 * index, 3 + 0.1 * index)
        else:
            agent = script.agent(f"try {index}", task="Solve it.", session=f"s{index}")
            at = 0.1 * index if kind == "one prompt, many answers" else 10.0 * index
            if kind == "the same task again":
                agent.work([(at, at + 1), (at + 2, at + 3)])
            else:
                agent.ask(at, at + 2, text=f"Solution {index} of many.")


@scripted()
def group_chat(script: Script) -> None:
    agents = [
        script.agent(f"guest {x}", instructions=f"You are guest {x}.", tools=None, session=f"s{x}") for x in range(2)
    ]
    for turn in range(6):
        speaker, other = agents[turn % 2], agents[1 - turn % 2]
        speaker.ask(2.0 * turn, 2.0 * turn + 1)
        other.put(user(str(speaker.messages[-1]["content"])))


@scripted("one beside another", "in turns")
def sessions(script: Script, kind: str) -> None:
    for index in range(2):
        agent = script.agent(f"person {index}", session="s" if index == 0 else "other")
        shift = 1.5 * index if kind == "in turns" else 0.5 * index
        agent.work([(3.0 * x + shift, 3.0 * x + shift + 1) for x in range(4)])


@scripted()
def choices(script: Script) -> None:
    main = script.agent("main")
    main.ask(0, 1, choices=3)
    main.tell("And then?")
    main.ask(2, 3, asks=1)
    main.results()
    main.ask(4, 5)


@scripted("at the end", "in the middle")
def lost(script: Script, where: str) -> None:
    main = script.agent("main")
    main.ask(0, 1, asks=1)
    main.results()
    if where == "in the middle":
        main.ask(2, 3, line="gone", how="lost")
    main.ask(4, 5, asks=1)
    main.results()
    main.ask(6, 7, how="lost" if where == "at the end" else "done")


@scripted("people", "tools")
def waits(script: Script, kind: str) -> None:
    main = script.agent("main")
    for turn in range(3):
        main.ask(100.0 * turn, 100.0 * turn + 1, asks=3 if kind == "tools" else 0)
        main.results()
        if kind == "people":
            main.tell(f"I have thought: {turn}")
    main.ask(400, 401)
