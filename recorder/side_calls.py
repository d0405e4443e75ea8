"""Which calls are beside the agent's work, such as making a title: tagged where nothing speaks against it.

A call is one when the client says so, or when all of this holds: it goes on from nothing and nothing goes on from it,
it asks for no tools and offers none (or a small part of what the agent offers, such as the schema of an answer), it has
two messages at most behind instructions that are not the agent's (or another model), and no tools were waited for while
it ran, for it might be one of them. The agent is a call with tools of the same line by the client's word; where
requests name nobody, it must have used them or been gone on from, and the call must also have run beside one of the
agent's, so that the agent did not wait for it.
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
        if tools_bytes and not call.opened.aux and (call.tools or followers or call.thread is not None):
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


def _is_alone(run: SeenRun, call: SeenCall, origin: Origin, behind: Mapping[int, Sequence[int]]) -> bool:
    messages = len(run.tree.message_ids(call.head)) - run.tree.leading_messages(call.head)
    is_short = messages <= _MOST_MESSAGES
    is_unanswered = not call.tools and not behind.get(call.number) and call.opened.request is None
    return is_short and is_unanswered and not origin.calls


def _near(call: SeenCall, agents: Sequence[_Agent]) -> Iterator[_Agent]:
    """Yield the agent's calls that it may be beside."""
    for agent in agents:
        overlaps = agent.call.start_ms < call.end_ms and call.start_ms < agent.call.end_ms
        if agent.call is not call and (call.thread is not None or overlaps):
            yield agent


def _is_beside(run: SeenRun, call: SeenCall, agent: _Agent) -> bool:
    is_other = call.domain != agent.call.domain or run.tree.instructions_id(call.head) != agent.instructions
    return is_other and _tools_bytes(run, call) * _LEAST_FACTOR <= agent.tools_bytes


def _tools_bytes(run: SeenRun, call: SeenCall) -> int:
    tools = run.tree.tools_of(call.head)
    return 0 if tools is None else run.tree[tools].loose_bytes
