"""What the coding agents are made to do for the example traces: find out why the tests of a small library fail.

What the model says is from examples/react/script.py; what the tools do and tell is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from coding_agents.scripts import last_text

from examples.chance import chance
from examples.react import script
from examples.react.ideas import STANDING, TEST_ALL, Idea
from examples.react.script import SHOW_EXAMPLE, speak
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall
from scripts.example_traces.hands import Hands, Step

TASK = "Some tests of this repository fail. Find out why, and repair the code. Leave the tests as they are."
LOOK = "Find out why the tests of {} fail, and say what has to change. Change nothing yourself."
GO_ON = "Now run the program on the example, and say whether it does what the README says."
PAIR = "Look into the failing tests of {} and {}, each with the help of others."
ALONE = "Look into the failing tests of {}: let others read, and see it happen."
READ = "Read the {} of {}, and say what it promises."
LATE_MODULES = ("recurring", "sharing")
"""Those that sub-agents look into."""
DONE = Answer(text="All tests pass. " + " ".join(fault.cause for fault in STANDING))
SUMMARY = (
    "<analysis>The task, what was read, what was changed and what is left.</analysis>\n<summary>"
    f"1. The task: {TASK}\n2. The repository is a small library for shared expenses, with a module and a file of tests "
    "for each concern. "
    + " ".join(f"{number}. {fault.path}: {fault.cause}" for number, fault in enumerate(STANDING, start=3))
    + " Each repair is one small change, after which the tests of its module are run.</summary>"
)
TITLE = "Repair failing tests"
LONG_TEXT = 4_000
"""Characters of a prompt that asks for a summary; what asks for a title is shorter."""


@dataclass
class Programmer:
    """Says one step after another to the main agent, whatever of them was summed up, and to sub-agents by their task."""

    hands: Hands
    steps: Iterator[Step]
    looks: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    """What a sub-agent with a task is told."""

    def __call__(self, request: ModelRequest) -> Answer:
        """Return the next answer."""
        if not request.tools:
            return Answer(text=SUMMARY if len(str(request.messages)) > LONG_TEXT else TITLE)
        if self.hands.sums_up and self.hands.sums_up in last_text(request):
            return Answer(text=SUMMARY)
        for task, answers in self.looks.items():
            if (said := _answers_since(task, request)) is not None:
                return answers[min(said, len(answers) - 1)]
        step = next(self.steps, DONE)
        return step if isinstance(step, Answer) else step(request)


def _answers_since(task: str, request: ModelRequest) -> int | None:
    """Return how many answers a conversation holds behind a task, if somebody was given it there."""
    said = 0
    for message in reversed(request.messages):
        if message.role == "user" and task in message.content:
            return said
        said += message.role == "assistant"
    return None


@dataclass(frozen=True)
class Workshop:
    """An agent at work in a folder."""

    hands: Hands
    project: Path
    _words: Iterator[int] = field(default_factory=count)

    def say(self, kind: str, *calls: ToolCall, module: str = "the module", text: str = "") -> Answer:
        """Return an answer with words and thinking that are drawn, the same ones each time."""
        return speak(script.Step(kind, calls, module, text), chance(7, "words", next(self._words)))

    def read(self, *paths: str) -> tuple[ToolCall, ...]:
        return tuple(self.hands.read(str(self.project / path)) for path in paths)

    def edit(self, fault: Idea) -> ToolCall:
        return self.hands.edit(str(self.project / fault.path), fault.found, fault.repair)

    def begin_looking(self) -> Iterator[Answer]:
        """Look around and run the tests."""
        yield self.say("look", self.hands.run("git log --oneline; git ls-files"), *self.read("README.md"))
        yield self.say("test", self.hands.run(TEST_ALL))

    def repair(self, fault: Idea) -> Iterator[Answer]:
        """Read tests and code of a module at the same time, change it, and run its tests."""
        yield self.say("read", *self.read(fault.test_path, fault.path), module=fault.module)
        yield self.say("edit", self.edit(fault), module=fault.module, text=fault.cause)
        yield self.say("test", self.hands.run(fault.test_command))

    def look_into(self, fault: Idea) -> list[Answer]:
        """Return what a sub-agent is told: read, see it happen, and report."""
        return [
            self.say("read", *self.read(fault.test_path, fault.path), module=fault.module),
            self.say("detour", self.hands.run(fault.probe_command), self.hands.run(fault.test_command)),
            self.hands.end(f"{fault.cause} In {fault.path} this should stand instead:\n\n{fault.repair}"),
        ]


def with_sub_agents(hands: Hands, project: Path) -> Programmer:
    """Repair two modules, and let two sub-agents look into two others at the same time before they are repaired."""
    work = Workshop(hands, project)
    early = [fault for fault in STANDING if fault.module not in LATE_MODULES]
    late = [fault for fault in STANDING if fault.module in LATE_MODULES]

    def steps() -> Iterator[Step]:
        yield from work.begin_looking()
        yield Answer(
            text="Four modules fail. Two others can look into two of them at the same time.",
            tool_calls=tuple(hands.begin(LOOK.format(fault.module)) for fault in late),
        )
        yield from hands.join
        for fault in early:
            yield from work.repair(fault)
        yield work.say("reread", *work.read(*(fault.path for fault in late)), module="both")
        yield work.say("edit", *map(work.edit, late), text="Both as it was found.")
        yield work.say("test", hands.run(TEST_ALL))
        yield DONE

    return Programmer(hands, steps(), {LOOK.format(fault.module): work.look_into(fault) for fault in late})


def in_a_small_window(hands: Hands, project: Path) -> Programmer:
    """Read all there is and repair one module after another, then be asked again in a new process."""
    work = Workshop(hands, project)

    def steps() -> Iterator[Step]:
        yield from work.begin_looking()
        for fault in STANDING:
            yield from work.repair(fault)
        yield work.say("read", *work.read("tally/report.py", "tally/settlement.py"), module="report")
        yield work.say("test", hands.run(TEST_ALL))
        yield DONE
        yield work.say("show", hands.run(SHOW_EXAMPLE), *work.read("example.journal"))
        yield Answer(text="It does: the balances add up to zero, and the example is settled with the fewest payments.")

    return Programmer(hands, steps())


def as_a_tree(hands: Hands, project: Path) -> Programmer:
    """Let two others look into two modules each, these two into one each, and these two read its tests and its code."""
    work = Workshop(hands, project)
    looks: dict[str, Sequence[Answer]] = {}
    pairs = list(zip(STANDING[::2], STANDING[1::2], strict=True))
    for pair in pairs:
        looks[_of_pair(pair)] = [
            work.say("detour", *(hands.begin(ALONE.format(fault.module)) for fault in pair)),
            hands.end(" ".join(fault.cause for fault in pair)),
        ]
        for fault in pair:
            looks |= _alone(work, fault)
    steps = [
        *work.begin_looking(),
        work.say("detour", *(hands.begin(_of_pair(pair)) for pair in pairs)),
        Answer(text="Four causes were found. " + " ".join(fault.cause for fault in STANDING)),
    ]
    return Programmer(hands, iter(steps), looks)


def _of_pair(pair: tuple[Idea, Idea]) -> str:
    return PAIR.format(*(fault.module for fault in pair))


def _alone(work: Workshop, fault: Idea) -> dict[str, list[Answer]]:
    paths = {READ.format("tests", fault.module): fault.test_path, READ.format("code", fault.module): fault.path}
    readers = {
        task: [work.say("read", *work.read(path), module=fault.module), work.hands.end(fault.cause)]
        for task, path in paths.items()
    }
    return readers | {
        ALONE.format(fault.module): [
            work.say("detour", *map(work.hands.begin, paths), module=fault.module),
            work.say("detour", work.hands.run(fault.probe_command), module=fault.module),
            work.hands.end(f"{fault.cause} In {fault.path} this should stand instead:\n\n{fault.repair}"),
        ]
    }
