"""Which agents worked, who began whom, and which calls each made: by the headers that were sent, and by the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clients.scripted_server import Seen
from clients.truth import TrueCall, true_calls
from coding_agents.agents import Senders, ToolIds
from coding_agents.anonymous import TOOL_ID
from coding_agents.playing import Played

from rotoscope.traces import Call, ParallelStart, Trace
from rotoscope.traces.model import Branch, ForkEvidence

ROOT = "root"
MAIN = ""
"""The agent that has no id."""
CERTAIN = ("own", "client", "response", "tools", "prefix", None)
"""Evidence of links that may only be wrong where rivals are stated; the rest says itself that it is no more than likely."""


@dataclass(frozen=True)
class Line:
    """One call, and who sent it by its headers."""

    true: TrueCall
    sender: str

    @property
    def call(self) -> Call:
        return self.true.call


def lines(played: Played) -> list[Line]:
    """Return the calls of a trace, each with who sent it."""
    told = senders_and_parents(played)
    sender_of = {id(generation): told[id(request)][0] for request in played.seen for generation in request.generations}
    return [Line(true, sender_of[id(true.generation)]) for true in true_calls(played)]


def senders_and_parents(played: Played) -> dict[int, tuple[str, str]]:
    """Return by the identity of a request who sends it and who began that one: the main agent where nobody is named."""
    calls = [request for request in played.seen if request.is_call]
    match played.senders:
        case ToolIds(header):
            return {at: (sender, MAIN) for at, sender in _by_tool_ids(calls, header).items()}
        case Senders(sender, parent):
            headers = {id(request): _headers(request) for request in calls}
            return {at: (one.get(sender, MAIN), one.get(parent, MAIN)) for at, one in headers.items()}


def _headers(seen: Seen) -> dict[str, str]:
    return {name.lower(): value for name, value in seen.headers.items()}


def _by_tool_ids(calls: Sequence[Seen], header: str) -> dict[int, str]:
    """Return who sends each request: whose first tool call its history holds, or, where it holds none, somebody new."""
    begun_by: dict[str, str] = {}
    senders: dict[int, str] = {}
    for number, request in enumerate(calls):
        told = _headers(request).get(header, "").encode() or request.body
        held = (begun_by.get(found[0].decode()) for found in TOOL_ID.finditer(told))
        senders[id(request)] = next(filter(None, held), f"agent {number}")
        begun_by |= dict.fromkeys(request.tool_ids, senders[id(request)])
    return senders


def told_parents(played: Played) -> dict[str, str]:
    """Return who began each agent that made a call; who made none began nobody, as far as a server can see."""
    senders, told = played.senders, dict(senders_and_parents(played).values())
    assert isinstance(senders, Senders)
    return {
        sender: parent
        for sender, parent in told.items()
        if sender != MAIN and parent in told and (parent != MAIN or senders.is_main_without_id)
    }


def recorded_parents(trace: Trace, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return who began each agent by the branches of a trace, which `names` has the agents of.

    A branch that an agent began for a call of its own, such as a summary, is no other agent's, and one of side calls
    alone, which ran beside an agent or did not, is none's.
    """
    working = {spelled(call.branch) for call in trace.calls() if not call.aux}
    branches = ((spelled((event.region, index)), spelled(event.branch)) for event, index in _branches(trace))
    begun = {branch: above for branch, above in branches if branch in working}
    found = [(name, _name(begun[branch], names)) for branch, (name, *_) in names.items() if branch in begun]
    return {name: parent for name, parent in found if name != parent}


def _branches(trace: Trace) -> Iterator[tuple[ParallelStart, int]]:
    for event in trace.events:
        if isinstance(event, ParallelStart):
            yield from ((event, index) for index in range(event.num_branches))


def spelled(branch: Branch | None) -> str:
    """Return a branch as the file of names spells it."""
    return ROOT if branch is None else ".".join(map(str, branch))


def _name(branch: str, names: Mapping[str, Sequence[str]]) -> str:
    return names.get(branch, [MAIN])[0]


def strangers(played: Played) -> list[Line]:
    """Return the calls that stand in another agent's branch."""
    names = played.names["branches"]
    return [line for line in lines(played) if line.sender not in names.get(spelled(line.call.branch), [MAIN])]


def links_to_others(calls: Sequence[Line]) -> list[Line]:
    """Return the calls that are said to go on from a call of another agent."""
    last: dict[int, str] = {}
    wrong = []
    for line in sorted(calls, key=lambda line: line.call.call):
        if line.call.link and last.get(line.call.conversation_id) != line.sender:
            wrong.append(line)
        last[line.call.conversation_id] = line.sender
    return wrong


def is_stated(line: Line) -> bool:
    """Whether a call says itself that what it goes on from may be another one."""
    return line.call.rivals is not None or line.call.link not in CERTAIN


@dataclass(frozen=True)
class Guess:
    """Who began an agent, by a trace that names nobody, and what is said to tell it."""

    parent: str
    evidence: ForkEvidence | None


def anonymous_parents(trace: Trace, calls: Sequence[Line]) -> dict[str, Guess]:
    """Return who began each agent by the branches that its calls and others' stand in."""
    regions = {event.region: event for event in trace.events if isinstance(event, ParallelStart)}
    sender_in = {line.call.branch: line.sender for line in reversed(calls)}
    guesses = {}
    for branch, sender in sender_in.items():
        if branch is not None:
            region = regions[branch[0]]
            guesses[sender] = Guess(sender_in[region.branch], region.evidence)
    return guesses
