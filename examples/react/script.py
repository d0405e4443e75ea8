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
from dataclasses import dataclass, field

from examples.chance import chance
from rotoscope.replayer.simulator.model import Answer, Message, ModelRequest, ToolCall

TEST_ALL = "python -m unittest discover tests"
SHOW_EXAMPLE = "python -m tally example.journal"
TOOLS = {"list_files", "read_file", "search", "edit_file", "run_command", "finish"}


@dataclass(frozen=True)
class Fault:
    """What the model finds in one module of the toy repository, and its two ideas of a repair."""

    module: str
    cause: str
    found: str
    """The faulty text."""
    first_try: str
    """A repair that some of the module's tests refuse."""
    correction: str
    """What was wrong with the first try."""
    repair: str
    called: str
    """What a search for its callers looks for."""
    probe: str
    """A Python expression that shows the fault."""

    @property
    def path(self) -> str:
        return f"tally/{self.module}.py"

    @property
    def test_path(self) -> str:
        return f"tests/test_{self.module}.py"

    @property
    def test_command(self) -> str:
        return f'{TEST_ALL} -p "test_{self.module}.py"'

    @property
    def probe_command(self) -> str:
        return f"python -c 'from tally.{self.module} import *; print({self.probe})'"


COUNTED_FROM_THE_LAST = """\
    day = first
    while day <= until:
        yield day
        day = add_months(day, recurrence.months) if recurrence.months else day + timedelta(weeks=recurrence.weeks)
"""

FAULTS = (
    Fault(
        "money",
        cause="The sign belongs to the whole amount, but only the part before the point carries it, so that the cents "
        "of a negative amount are added in the wrong direction.",
        found="    return int(whole) * 100 + cents\n",
        first_try="    sign = -1 if int(whole) < 0 else 1\n    return int(whole) * 100 + sign * cents\n",
        correction="An amount like -0.50 has a whole part of zero, and zero has no sign. The sign has to come from the "
        "text.",
        repair='    sign = -1 if plain.startswith("-") else 1\n    return int(whole) * 100 + sign * cents\n',
        called="parse_amount",
        probe='[parse_amount(a) for a in ("3.20", "-3.20", "-0.50")]',
    ),
    Fault(
        "journal",
        cause="The comment is cut off at the first number sign, also when that stands inside quotation marks.",
        found='    return line.partition("#")[0]\n',
        first_try='    return line.partition(" #")[0]\n',
        correction="A space before the number sign proves nothing, a description has spaces too, and a line may begin "
        "with a comment. The quotation marks have to be counted.",
        repair="""\
    quoted = False
    for position, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == "#" and not quoted:
            return line[:position]
    return line
""",
        called="strip_comment",
        probe="repr(strip_comment(chr(34) + chr(35) + chr(34)))",
    ),
    Fault(
        "recurring",
        cause="Each day is computed from the one before, so that a day which was cut to the end of a short month never "
        "comes back to where it started.",
        found=COUNTED_FROM_THE_LAST,
        first_try=COUNTED_FROM_THE_LAST
        + "        if first.day == 31:\n"
        + "            day = day.replace(day=monthrange(day.year, day.month)[1])\n",
        correction="That helps the 31st only; the 30th is lost in February all the same. Each day has to be counted from "
        "the first one.",
        repair="""\
    day, step = first, 0
    while day <= until:
        yield day
        step += 1
        if recurrence.months:
            day = add_months(first, step * recurrence.months)
        else:
            day = first + timedelta(weeks=step * recurrence.weeks)
""",
        called="occurrences",
        probe="[str(d) for d in occurrences(date(2024, 1, 31), Recurrence(months=1), until=date(2024, 5, 1))]",
    ),
    Fault(
        "sharing",
        cause="The division drops the remainder, so that up to one cent for each person is lost, and the balances no "
        "longer add up to zero.",
        found="    return dict.fromkeys(names, cents // len(names))\n",
        first_try="""\
    shares = dict.fromkeys(names, cents // len(names))
    shares[names[0]] += cents % len(names)
    return shares
""",
        correction="One person bears the whole remainder now, while shares may differ by one cent only. It has to be dealt "
        "out cent by cent.",
        repair="""\
    share, left_over = divmod(cents, len(names))
    return {name: share + (rank < left_over) for rank, name in enumerate(names)}
""",
        called="split_evenly",
        probe='split_evenly(1001, ["anna", "ben", "cleo"])',
    ),
)

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

    faults: tuple[Fault, ...]
    reads_readme: bool
    shows_example: bool
    wrong_at_first: frozenset[str]
    rereads: frozenset[str]
    apart: frozenset[str]
    """Modules whose test and code are read in two answers."""
    detours: tuple[tuple[str, ToolCall], ...]
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
    """Draw what is decided once: 15 to 25 answers come out of it."""
    draw = chance(seed, "plan")
    modules = [fault.module for fault in FAULTS]
    wrong_at_first = draw.sample(modules, draw.choices((0, 1), weights=(1, 3))[0])
    detours = [
        (fault.module, call)
        for fault in FAULTS
        for call in (tool("search", text=fault.called), tool("run_command", command=fault.probe_command))
    ]
    return Plan(
        faults=tuple(draw.sample(FAULTS, len(FAULTS))),
        reads_readme=draw.random() < 0.7,
        shows_example=draw.random() < 0.4,
        wrong_at_first=frozenset(wrong_at_first),
        rereads=frozenset(module for module in wrong_at_first if draw.random() < 0.6),
        apart=frozenset(draw.sample(modules, draw.randrange(3))),
        detours=tuple(draw.sample(detours, draw.randrange(3))),
        tests_all=frozenset(draw.sample(modules, draw.randrange(3))),
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
    for fault in plan.faults:
        if fault.module in sight.failing:
            return repair(plan, sight, fault)
    if not sight.all_tested:
        return Step("test", (tool("run_command", command=TEST_ALL),))
    if sight.failing:
        return finish(f"I do not get any further. These tests still fail: {', '.join(sorted(sight.failing))}.")
    if plan.shows_example and SHOW_EXAMPLE not in sight.detours:
        return Step("show", (tool("run_command", command=SHOW_EXAMPLE),))
    return finish("All tests pass. " + " ".join(fault.cause for fault in plan.faults if fault.path in sight.edits))


def test_again(plan: Plan, path: str) -> Step:
    """Run the tests of the module that was changed, or all of them."""
    (fault,) = (fault for fault in FAULTS if fault.path == path)
    command = TEST_ALL if fault.module in plan.tests_all else fault.test_command
    return Step("test", (tool("run_command", command=command),))


def repair(plan: Plan, sight: Sight, fault: Fault) -> Step:
    """Read, take the detours that the plan has, and change the code."""
    module = fault.module
    unread = [path for path in (fault.test_path, fault.path) if path not in sight.files]
    if unread:
        return Step("read", tuple(map(read, unread[:1] if module in plan.apart else unread)), module)
    for where, call in plan.detours:
        if where == module and not sight.detours & set(json.loads(call.arguments).values()):
            return Step("detour", (call,), module)
    if fault.path in sight.stale and module in plan.rereads:
        return Step("reread", (read(fault.path),), module)
    text = sight.files[fault.path]
    if sight.edits.count(fault.path) > 1 or (fault.found not in text and fault.first_try not in text):
        return finish(f"I do not understand what is wrong in {fault.path}.")
    if fault.path in sight.edits:
        return change(fault, fault.first_try, fault.repair, fault.correction)
    wrong = module in plan.wrong_at_first
    return change(fault, fault.found, fault.first_try if wrong else fault.repair, fault.cause)


def change(fault: Fault, old: str, new: str, reason: str) -> Step:
    """Edit the faulty lines."""
    return Step("edit", (tool("edit_file", path=fault.path, old_text=old, new_text=new),), fault.module, reason)


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
