"""Which messages each call brought into its conversation (`links.py` says which that is).

A conversation is a list of messages that calls extend, or cut first: what a prompt shares with the list stays, and the
rest enters with the call. Messages are compared by their loose form; a conversation may change its model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.links import Link
from rotoscope.recorder.origins import is_same_request
from rotoscope.recorder.part_tree import common_length
from rotoscope.traces.model import LinkEvidence

_ANEW: tuple[LinkEvidence, ...] = ("again", "rewind", "compaction")
"""Links of calls that do not answer the call before them."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A call in its conversation."""

    link: Link
    messages: tuple[int, ...]
    """The prompt's parts without the tools."""
    kept: int
    """So many messages were in the list before; the others entered with this call."""
    carries_tools: int = 0
    """Tool results in the prompt right behind the answer of the previous call."""

    @property
    def conversation(self) -> int:
        return self.link.conversation

    @property
    def before(self) -> int | None:
        """The conversation's previous call."""
        return self.link.before


@dataclass(slots=True)
class _List:
    messages: tuple[int, ...] = ()
    """Loose ids of the list, the last answer included."""
    last_length: int = 0
    """Messages in the prompt of the last call."""


def find_turns(run: SeenRun, links: Sequence[Link]) -> list[Turn]:
    """Return the turn of each call, in the order of their numbers."""
    lists: dict[int, _List] = {}
    return [
        _turn(run, call, link, lists.setdefault(link.conversation, _List()))
        for call, link in zip(run.calls, links, strict=True)
    ]


def _turn(run: SeenRun, call: SeenCall, link: Link, known: _List) -> Turn:
    parts, ids = run.tree.messages(call.head), run.tree.message_ids(call.head)
    is_choice = link.before is not None and is_same_request(run.calls[link.before], call)
    kept = len(parts) if is_choice else common_length(known.messages, ids)
    carries = 0
    if link.before is not None and link.evidence not in _ANEW:
        answer = known.last_length if kept >= known.last_length else _last_answer(run, parts)
        carries = _tool_results(run, parts, answer)
    known.messages = ids if call.answer is None else (*ids, run.tree.node(call.answer).message_id)
    known.last_length = len(ids)
    return Turn(link, parts, kept, carries)


def _last_answer(run: SeenRun, parts: Sequence[int]) -> int:
    answers = (index for index in range(len(parts) - 1, -1, -1) if run.tree[parts[index]].role == "assistant")
    return next(answers, len(parts))


def _tool_results(run: SeenRun, parts: Sequence[int], answer: int) -> int:
    """Count the tool results behind the answer at index `answer`, which the client may have written anew."""
    if answer >= len(parts) or run.tree[parts[answer]].role != "assistant":
        return 0
    count = 0
    while answer + 1 + count < len(parts) and run.tree[parts[answer + 1 + count]].role == "tool":
        count += 1
    return count
