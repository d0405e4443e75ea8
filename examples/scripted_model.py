"""Play the models of the agents offline: `rotoscope serve --script examples.scripted_model:answer`.

Each agent brings a script. It says what the agent's model says, decided from the conversation alone: only the words are
drawn, from the seed; what the tools return is real. Nothing is kept between answers, so that one server plays for any
number of agents, of all kinds, at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from examples.agentic_rag import script as agentic_rag
from examples.deep_research import script as deep_research
from examples.iterative_research import script as iterative_research
from examples.react import script as react
from examples.tree_of_thought import script as tree_of_thought
from rotoscope.replayer.simulator.model import Answer, ModelRequest, RandomModel


class Script(Protocol):
    """What a script module has."""

    def plays(self, request: ModelRequest, /) -> bool:
        """Return whether a conversation is one of this agent's."""
        ...

    def answer(self, request: ModelRequest, /) -> Answer:
        """Return what is said next in it."""
        ...


SCRIPTS: Sequence[Script] = (react, deep_research, iterative_research, tree_of_thought, agentic_rag)


def answer(request: ModelRequest) -> Answer:
    """Return the next answer of the conversation; to a prompt that is none, such as a replay's, random words."""
    if not request.messages:
        return RandomModel().answer(request)
    for script in SCRIPTS:
        if script.plays(request):
            return script.answer(request)
    return Answer(text="That is a conversation of none of the agents in examples/; there is nothing that I can do.")
