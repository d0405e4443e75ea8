"""Which calls are beside the agent's work, such as making a title: tagged where nothing speaks against it.

A call is one when the client says so, or when all of this holds: it goes on from nothing and nothing goes on from it,
it asks for no tools and offers none (or a small part of what the agent offers, such as the schema of an answer), it has
two messages at most behind instructions that are not the agent's (or another model), and no tools were waited for while
it ran, for it might be one of them. The agent is a call with tools of the same line by the client's word; where
requests name nobody, or by a line of ours, it must have used them or been gone on from, and the call must also have run
beside one of the agent's, so that the agent did not wait for it.

A call that holds what the agent said is one too, such as one that asks whether the agent is in a loop: nothing goes on
from it, it offers as little, has other instructions than the agent, and none at all or such that the agent went on
without it; and all of that kind that follow. It may ask for one tool, the schema of its answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.origins import Origin

_MOST_MESSAGES = 2
_LEAST_FACTOR = 4
"""So many times longer the tools of an agent are at least than what a side call has in their place."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """A call with tools that it asked for, or that was gone on from, or of somebody whom the client names."""

    call: SeenCall
    instructions: int
    """The message id of the last of its system messages."""
    tools_bytes: int


def find_side_calls(run: SeenRun, origins: Sequence[Origin], behind: Mapping[int, Sequence[int]]) -> frozenset[int]:
    """Return the numbers of the side calls; `behind` tells which calls go on from one."""
    agents: defaultdict[int | None, list[_Agent]] = defaultdict(list)
    gaps: defaultdict[int | None, list[tuple[float, float]]] = defaultdict(list)
    for call in run.calls:
        followers = behind.get(call.number, ())
        tools_bytes = _tools_bytes(run, call)
        if tools_bytes and not call.opened.aux and (call.tools or followers or _is_of_a_client(call)):
            agents[call.thread].append(_Agent(call, run.tree.instructions_id(call.head), tools_bytes))
        if call.tools and followers:
            gaps[call.thread].append((call.end_ms, min(run.calls[x].start_ms for x in followers)))
    found = [call.number for call in run.calls if call.opened.aux]
    for call in run.calls:
        if call.opened.aux or not agents[call.thread] or not _is_alone(run, call, origins[call.number], behind):
            continue
        is_tool = any(start <= call.start_ms and call.end_ms <= end for start, end in gaps[call.thread])
        if not is_tool and any(_is_beside(run, call, agent) for agent in _near(call, agents[call.thread])):
            found.append(call.number)
    return frozenset(found)


def find_looks(run: SeenRun, origins: Sequence[Origin], behind: Mapping[int, Sequence[int]]) -> frozenset[int]:
    """Return the numbers of the side calls that hold what an agent said."""
    found: set[int] = set()
    kinds: set[tuple[int | None, int, int, int | None]] = set()
    for call in run.calls:
        origin = origins[call.number]
        is_behind = origin.kind in ("tools", "prefix", "answer") and not call.opened.aux
        if behind.get(call.number) or len(call.tools) > 1 or not is_behind:
            continue
        instructions, agent = run.tree.instructions_id(call.head), run.calls[origin.calls[-1]]
        if instructions == run.tree.instructions_id(agent.head) or not _offers_less(run, call, agent):
            continue
        kind = call.thread, call.domain, instructions, run.tree.tools_of(call.head)
        if not run.tree.leading_messages(call.head) or kind in kinds or _grows_without(run, call, agent, behind):
            found.add(call.number)
            kinds.add(kind)
    return frozenset(found)


def _grows_without(run: SeenRun, call: SeenCall, agent: SeenCall, behind: Mapping[int, Sequence[int]]) -> bool:
    """Whether the agent goes on behind a call as it was, with a longer list: one that is shorter may hold a summary."""
    while following := [run.calls[x] for x in behind.get(agent.number, ()) if _is_grown(run, run.calls[x], agent)]:
        agent = following[-1]
        if agent.number > call.number:
            return True
    return False


def _is_grown(run: SeenRun, call: SeenCall, agent: SeenCall) -> bool:
    is_alike = run.tree.instructions_id(call.head) == run.tree.instructions_id(agent.head)
    is_longer = len(run.tree.message_ids(call.head)) > len(run.tree.message_ids(agent.head))
    return call.domain == agent.domain and is_alike and is_longer


def _offers_less(run: SeenRun, call: SeenCall, agent: SeenCall) -> bool:
    tools_bytes = _tools_bytes(run, agent)
    return tools_bytes > 0 and _tools_bytes(run, call) * _LEAST_FACTOR <= tools_bytes


def _is_alone(run: SeenRun, call: SeenCall, origin: Origin, behind: Mapping[int, Sequence[int]]) -> bool:
    messages = len(run.tree.message_ids(call.head)) - run.tree.leading_messages(call.head)
    is_short = messages <= _MOST_MESSAGES
    is_unanswered = not call.tools and not behind.get(call.number) and call.opened.request is None
    return is_short and is_unanswered and not origin.calls


def _near(call: SeenCall, agents: Sequence[_Agent]) -> Iterator[_Agent]:
    """Yield the agent's calls that it may be beside."""
    for agent in agents:
        overlaps = agent.call.start_ms < call.end_ms and call.start_ms < agent.call.end_ms
        if agent.call is not call and (_is_of_a_client(call) or overlaps):
            yield agent


def _is_of_a_client(call: SeenCall) -> bool:
    """Whether a client that knows agents names who sends; a line of ours is of all that an agent does one after another."""
    return call.thread is not None and call.opened.thread_source == "client"


def _is_beside(run: SeenRun, call: SeenCall, agent: _Agent) -> bool:
    is_other = call.domain != agent.call.domain or run.tree.instructions_id(call.head) != agent.instructions
    return is_other and _tools_bytes(run, call) * _LEAST_FACTOR <= agent.tools_bytes


def _tools_bytes(run: SeenRun, call: SeenCall) -> int:
    tools = run.tree.tools_of(call.head)
    return 0 if tools is None else run.tree[tools].loose_bytes
