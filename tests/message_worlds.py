"""Runs of agents over real tokens, and what a TensorRT-LLM recorder would have written of them.

Tokens are told apart by where they came from, so the truth about common prefixes needs none of the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import foreign_traces as foreign
from hypothesis import strategies as st
from strategies import chosen

Token = tuple[object, int]
Tokens = tuple[Token, ...]


@dataclass(frozen=True)
class RealCall:
    prompt: Tokens
    output: Tokens

    @property
    def stream(self) -> Tokens:
        return self.prompt + self.output


@dataclass
class Run:
    """The events of a run and the calls as they really were."""

    events: list[foreign.Json] = field(default_factory=list)
    calls: list[RealCall] = field(default_factory=list)
    systems: dict[str, int] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return foreign.trtllm(*self.events)


def common(a: Tokens, b: Tokens) -> int:
    """Count the leading tokens that two streams share."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


Lists = dict[int, list[Tokens]]


@dataclass
class _Branch:
    path: tuple[int, ...]
    lists: Lists


@st.composite
def runs(draw: st.DrawFn, overhead: bool = False) -> Run:
    """Draw a run with rewinds, retries, compaction, reasoning, nested and overlapping branches.

    With `overhead` a message takes more tokens in the prompt than the file says, as chat templates make it.
    """
    run = Run()
    root = _Branch((), {})
    open_regions: list[tuple[_Branch, list[_Branch]]] = []
    for _ in range(draw(st.integers(1, 14))):
        inside = {id(parent) for parent, _ in open_regions}
        live = [root, *(child for _, children in open_regions for child in children)]
        branch = chosen(draw, live)
        action = chosen(draw, ("turn", "turn", "turn", "turn", "fork", "join"))
        if action == "fork" and id(branch) not in inside and len(branch.path) < 2:
            number = draw(st.integers(1, 3))
            run.events.append(foreign.fork(number, *branch.path))
            children = [_Branch((*branch.path, i), _copied(branch.lists)) for i in range(number)]
            open_regions.append((branch, children))
        elif action == "join" and open_regions:
            parent, children = chosen(draw, open_regions)
            if not {id(child) for child in children} & inside:
                run.events.append(foreign.join(*parent.path))
                open_regions = [region for region in open_regions if region[0] is not parent]
        else:
            _turn(draw, run, branch, overhead)
    return run


def _copied(lists: Lists) -> Lists:
    return {conversation: list(messages) for conversation, messages in lists.items()}


def _turn(draw: st.DrawFn, run: Run, branch: _Branch, overhead: bool) -> None:
    """Cut a conversation at some place, add messages and make a call."""
    known = sorted(branch.lists)
    new = 10 * len(run.events)
    conversation = chosen(draw, [*known, *known, new])
    messages = branch.lists.setdefault(conversation, [])
    kept = len(messages) if draw(st.booleans()) else draw(st.integers(0, len(messages)))
    where: foreign.Json = {"path": branch.path, "conversation_id": conversation}
    del messages[kept:]
    if kept == 0:
        _system(draw, run, messages, where)
    for _ in range(draw(st.integers(0, 3))):
        role = chosen(draw, ("user", "tool"))
        size = draw(st.integers(0, 5))
        run.events.append(foreign.message(role, len(messages), size, **where))
        extra = draw(st.integers(0, 2)) if overhead and size else 0
        messages.append(_fresh(run, "message", size + extra))
    prompt = tuple(token for message in messages for token in message)
    if not prompt:
        run.events.append(foreign.message("user", len(messages), 1, **where))
        messages.append(_fresh(run, "message", 1))
        prompt = messages[-1]
    output = _fresh(run, "output", draw(st.integers(0, 5)))
    reasoning = chosen(draw, (0, 0, len(output), len(output) // 2))
    run.events.append(foreign.call(len(messages), len(prompt), len(output), reasoning, **where))
    extra = draw(st.integers(0, 2)) if overhead and output[reasoning:] else 0
    messages.append(output[reasoning:] + _fresh(run, "end", extra))
    run.calls.append(RealCall(prompt, output))


def _system(draw: st.DrawFn, run: Run, messages: list[Tokens], where: foreign.Json) -> None:
    """Begin a conversation with one or two system prompts, with an id or without, or with none."""
    before: str | None = ""
    for _ in range(draw(st.integers(0, 2))):
        name = chosen(draw, ("A", "B", None))
        size = draw(st.integers(1, 4))
        more: foreign.Json = {} if name is None or before is None else {"system_prompt_id": name}
        run.events.append(foreign.message("system", len(messages), size, **where, **more))
        if more and before is not None:
            key = f"{before}/{name}"
            run.systems[key] = max(run.systems.get(key, 0), size)
            messages.append(tuple((key, i) for i in range(size)))
            before = f"{key}{size}"
        else:
            messages.append(_fresh(run, "system", size))
            before = None


def _fresh(run: Run, kind: str, size: int) -> Tokens:
    return tuple(((kind, len(run.events)), i) for i in range(size))
