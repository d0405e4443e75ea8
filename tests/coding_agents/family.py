"""Which agents worked, who began whom, and which calls each made: by the headers that were sent, and by the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clients.scripted_server import Seen
from clients.truth import TrueCall, true_calls
from coding_agents.agents import Senders
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
    sender_of = {
        id(generation): sender_and_parent(played.senders, request)[0]
        for request in played.seen
        for generation in request.generations
    }
    return [Line(true, sender_of[id(true.generation)]) for true in true_calls(played)]


def sender_and_parent(senders: Senders, seen: Seen) -> tuple[str, str]:
    """Return who sends a request and who began that one, each the main agent where nobody is named."""
    headers = {name.lower(): value for name, value in seen.headers.items()}
    return headers.get(senders.sender, MAIN), headers.get(senders.parent, MAIN)


def told_parents(played: Played) -> dict[str, str]:
    """Return who began each agent that made a call; who made none began nobody, as far as a server can see."""
    told = dict(sender_and_parent(played.senders, request) for request in played.seen if request.is_call)
    return {
        sender: parent
        for sender, parent in told.items()
        if sender != MAIN and parent in told and (parent != MAIN or played.senders.is_main_without_id)
    }


def recorded_parents(trace: Trace, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return who began each agent by the branches of a trace, which `names` has the agents of."""
    begun = {spelled((event.region, index)): spelled(event.branch) for event, index in _branches(trace)}
    return {name: _name(begun.get(branch, ROOT), names) for branch, (name, *_) in names.items() if branch in begun}


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
