"""What the model of the agent says offline: it is played by examples/scripted_model.py.

Only what the model says is drawn; what the tools return is real. Each answer is decided from the conversation alone, as
a programmer would: look around, run the tests, take one failure, read its test and its code, change it, run the tests
again, and correct a change that did not help. The seed decides the order of the failures, which repairs go wrong at first,
which detours are taken, what is read together, and how much is said and thought. The same seed and conversation give the
same answer, and nothing is kept between answers, so that one server plays for any number of agents.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from examples.chance import chance
from rotoscope.replayer.simulator.model import Answer, Message, ModelRequest, ToolCall

from .ideas import IDEAS, TEST_ALL, Idea, test_command, test_path

SHOW_EXAMPLE = "python -m tally example.journal"
EARLY, LATE = ("money", "journal", "recurring", "sharing"), ("settlement", "report")
"""The modules; the tests of the late ones also fail for faults of the early ones."""
TOOLS = {"list_files", "read_file", "search", "edit_file", "run_command", "finish"}


EXPECT = {
    "look": ("Let me look around first.", "I begin with the layout of the repository.", ""),
    "readme": ("The README should say what is meant to happen.", "First what this is for.", ""),
    "test": ("Now the tests.", "Let me see what the tests say.", "Running the tests again.", ""),
    "read": (
        "The failures in {module} come next: what is expected, and what does the code do?",
        "I read the test of {module} and the code under it.",
        "Next is {module}.",
        "",
    ),
    "detour": (
        "Before I change anything I want to see it happen.",
        "Who depends on this?",
        "A short check, so that I do not guess.",
        "",
    ),
    "reread": ("That was not enough. I look at {module} as it is now.", "Still failing; reading it once more.", ""),
    "show": ("The suite passes. One run of the program itself, on the example.", "Does the program agree?"),
}
"""What the model says around its tool calls, by what it does next."""

THINKING = (
    "The output names the test and the line, and the values on both sides.",
    "The docstring of {module} promises more than the code does.",
    "I should not trust the first explanation that fits.",
    "There may be one cause behind several of these failures.",
    "The tests of settlement and report go through other modules, so they can wait.",
    "Whatever I do, the signature stays as it is, because others call it.",
    "Zero, negative values and the empty case deserve a look as well.",
    "If I change this here, who notices? The callers only use the result.",
    "A smaller change is better than a clever one.",
    "The test compares whole lists, so the first differing element is what counts.",
    "In {module} the interesting part is short, a few lines at most.",
    "Reading the traceback again: the assertion fails, nothing is raised.",
    "I could special-case the value in the test, but that would repair nothing.",
    "The numbers are off by very little, which speaks for rounding or for a border.",
    "It would be good to know whether this ever worked for a simpler input.",
    "The other functions of the module follow the same pattern and pass.",
    "So the order is: understand, change, run, and only then go on.",
    "What does the caller expect here, and what does it get?",
    "Let me go through it by hand with the value from the test.",
    "The first step gives the right result, the second one does not.",
    "That matches what the assertion printed.",
    "I have seen enough of the surroundings to be sure about this part.",
    "Nothing else in the repository relies on the faulty behaviour.",
    "Then the rest of the suite should not change.",
)


@dataclass
class Sight:
    """What the conversation has shown so far."""

    answers: int = 0
    listed: bool = False
    files: dict[str, str] = field(default_factory=dict)
    """Text of each file that was read, with the edits since."""
    stale: set[str] = field(default_factory=set)
    """Files that were edited after they were read."""
    edits: list[str] = field(default_factory=list)
    """Path of each edit that was made."""
    written: set[str] = field(default_factory=set)
    """What edits put into the files."""
    untested: str = ""
    """File that was edited after the last run of tests."""
    failing: set[str] | None = None
    """Modules whose tests fail, as far as known; None before the first run."""
    all_tested: bool = False
    """Whether the last run was of all tests, and nothing was edited since."""
    detours: set[str] = field(default_factory=set)
    """Searches and commands that were no tests."""


@dataclass(frozen=True)
class Plan:
    """What the seed decides once for the whole run."""

    modules: tuple[str, ...]
    """In the order in which their failures are taken."""
    reads_readme: bool
    shows_example: bool
    wrong_at_first: frozenset[str]
    rereads: frozenset[str]
    apart: frozenset[str]
    """Modules whose test and code are read in two answers."""
    searches: frozenset[str]
    """Modules for whose callers it looks."""
    probes: frozenset[str]
    """Modules whose fault it wants to see first."""
    tests_all: frozenset[str]
    """Modules after whose repair all tests are run."""


@dataclass(frozen=True)
class Step:
    """What the model does next, and what it has to say about it."""

    kind: str
    calls: tuple[ToolCall, ...]
    module: str = "the module"
    say: str = ""


def plays(request: ModelRequest) -> bool:
    """Return whether a conversation is one of this agent's: its tools tell."""
    return {str(tool["function"]["name"]) for tool in request.tools} >= TOOLS


def answer(request: ModelRequest) -> Answer:
    """Return the next answer of the conversation."""
    sight = look(request.messages)
    step = decide(plan(request.seed), sight)
    return speak(step, chance(request.seed, "words", sight.answers))


def plan(seed: int) -> Plan:
    """Draw what is decided once; what it says of modules without a fault comes to nothing."""
    draw = chance(seed, "plan")
    modules = (*draw.sample(EARLY, len(EARLY)), *draw.sample(LATE, len(LATE)))
    wrong_at_first = draw.sample(modules, draw.choices((0, 1, 2), weights=(1, 3, 2))[0])
    return Plan(
        modules=modules,
        reads_readme=draw.random() < 0.7,
        shows_example=draw.random() < 0.4,
        wrong_at_first=frozenset(wrong_at_first),
        rereads=frozenset(module for module in wrong_at_first if draw.random() < 0.6),
        apart=frozenset(draw.sample(modules, draw.randrange(4))),
        searches=frozenset(draw.sample(modules, draw.randrange(3))),
        probes=frozenset(draw.sample(modules, draw.randrange(3))),
        tests_all=frozenset(draw.sample(modules, draw.randrange(4))),
    )


def look(messages: tuple[Message, ...]) -> Sight:
    """Return what a conversation has shown."""
    sight = Sight()
    calls = {call.id: call for message in messages for call in message.tool_calls}
    for message in messages:
        if message.role == "assistant":
            sight.answers += 1
        elif message.role == "tool" and message.tool_call_id in calls:
            call = calls[message.tool_call_id]
            notice(sight, call.name, json.loads(call.arguments), message.content)
    return sight


def notice(sight: Sight, name: str, arguments: dict[str, str], output: str) -> None:
    """Take in what one tool returned."""
    worked = not output.startswith("error:")
    match name:
        case "list_files":
            sight.listed = True
        case "read_file" if worked:
            lines = (line.partition("| ")[2] for line in output.splitlines())
            sight.files[arguments["path"]] = "".join(f"{line}\n" for line in lines)
            sight.stale.discard(arguments["path"])
        case "edit_file" if worked:
            path = arguments["path"]
            sight.files[path] = sight.files.get(path, "").replace(arguments["old_text"], arguments["new_text"])
            sight.stale.add(path)
            sight.edits.append(path)
            sight.written.add(arguments["new_text"])
            sight.untested = path
            sight.all_tested = False
        case "search":
            sight.detours.add(arguments["text"])
        case "run_command" if arguments["command"].startswith(TEST_ALL):
            notice_tests(sight, arguments["command"], output)
        case "run_command":
            sight.detours.add(arguments["command"])


def notice_tests(sight: Sight, command: str, output: str) -> None:
    """Take in which modules' tests failed, of all or of the one that was run."""
    failed = set(re.findall(r"^(?:FAIL|ERROR): \w+ \(test_(\w+)\.", output, re.MULTILINE))
    sight.untested = ""
    sight.all_tested = command == TEST_ALL
    only = re.search(r"test_(\w+)\.py", command)
    sight.failing = failed if only is None else (sight.failing or set()) - {only[1]} | failed


def decide(plan: Plan, sight: Sight) -> Step:
    """Return the next step: what has to be known first, then one failure after the other, then the end."""
    if not sight.listed:
        return Step("look", (tool("list_files"),))
    if plan.reads_readme and "README.md" not in sight.files:
        return Step("readme", (read("README.md"),))
    if sight.failing is None:
        return Step("test", (tool("run_command", command=TEST_ALL),))
    if sight.untested:
        return test_again(plan, sight.untested)
    for module in plan.modules:
        if module in sight.failing:
            if module in LATE and not sight.all_tested and code_path(module) not in sight.edits:
                break  # perhaps it fails no longer
            return repair(plan, sight, module)
    if not sight.all_tested:
        return Step("test", (tool("run_command", command=TEST_ALL),))
    if sight.failing:
        return finish(f"I do not get any further. These tests still fail: {', '.join(sorted(sight.failing))}.")
    if plan.shows_example and SHOW_EXAMPLE not in sight.detours:
        return Step("show", (tool("run_command", command=SHOW_EXAMPLE),))
    return finish("All tests pass. " + " ".join(idea.cause for idea in IDEAS if idea.repair in sight.written))


def test_again(plan: Plan, path: str) -> Step:
    """Run the tests of the module that was changed, or all of them."""
    module = path.removeprefix("tally/").removesuffix(".py")
    return Step("test", (tool("run_command", command=TEST_ALL if module in plan.tests_all else test_command(module)),))


def repair(plan: Plan, sight: Sight, module: str) -> Step:
    """Read, take the detours that the plan has, and change the code."""
    path = code_path(module)
    unread = [each for each in (test_path(module), path) if each not in sight.files]
    if unread:
        return Step("read", tuple(map(read, unread[:1] if module in plan.apart else unread)), module)
    text = sight.files[path]
    known = [idea for idea in IDEAS if idea.module == module and (idea.found in text or idea.first_try in text)]
    if not known or sight.edits.count(path) > 1:
        return finish(f"I do not understand what is wrong in {path}.")
    (idea,) = known
    for call in detours(plan, idea):
        if not sight.detours & set(json.loads(call.arguments).values()):
            return Step("detour", (call,), module)
    if path in sight.stale and module in plan.rereads:
        return Step("reread", (read(path),), module)
    if path in sight.edits:
        return change(idea, idea.first_try, idea.repair, idea.correction)
    return change(idea, idea.found, idea.first_try if module in plan.wrong_at_first else idea.repair, idea.cause)


def detours(plan: Plan, idea: Idea) -> Iterator[ToolCall]:
    """Yield what the plan has before a change that is not needed for it."""
    if idea.module in plan.searches:
        yield tool("search", text=idea.called)
    if idea.module in plan.probes:
        yield tool("run_command", command=idea.probe_command)


def change(idea: Idea, old: str, new: str, reason: str) -> Step:
    """Edit the faulty lines."""
    return Step("edit", (tool("edit_file", path=idea.path, old_text=old, new_text=new),), idea.module, reason)


def code_path(module: str) -> str:
    return f"tally/{module}.py"


def finish(summary: str) -> Step:
    return Step("finish", (tool("finish", summary=summary),))


def read(path: str) -> ToolCall:
    return tool("read_file", path=path)


def tool(name: str, **arguments: str) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


def speak(step: Step, draw: random.Random) -> Answer:
    """Draw the words around a step: often a sentence or two, sometimes a good deal of thinking before it."""
    said = step.say or draw.choice(EXPECT.get(step.kind, ("",)))
    thoughts = draw.sample(THINKING, min(len(THINKING), round(draw.lognormvariate(1.6, 0.7))))
    thinks = draw.random() < (0.7 if step.kind in ("edit", "read") else 0.3)
    return Answer(
        text=said.format(module=step.module),
        reasoning=" ".join(thoughts).format(module=step.module) if thinks else "",
        tool_calls=step.calls,
    )
