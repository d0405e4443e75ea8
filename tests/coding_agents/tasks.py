"""Tasks for agents that differ in the names of their tools alone, and what the model says to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clients.script import LONG_WORDS
from clients.scripted_server import Script
from coding_agents.agents import Canaries

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

MEETING = "When is the meeting"
ASK_TWO = "Ask two others to look at it"
ASK_TWINS = "Ask two others for the same"
FIRST, SECOND, TWIN = "Look at the first half of it", "Look at the second half of it", "Look again at all of it"
READ_LONG = "Read the long lists"
GO_ON = "Go on with the lists"
COUNT = "Count without end"
REFUSED = "Please refuse this twice, please: 17"
LIST_LINES = 1000


@dataclass(frozen=True)
class Tools:
    """How an agent's model asks for what it wants done."""

    run: Callable[[str], ToolCall]
    """Run a command in a shell."""
    begin: Callable[[str], ToolCall]
    """Begin a sub-agent with these words."""
    end: Callable[[str], Answer] = Answer
    """What a sub-agent says at its end."""


def tool(name: str, **arguments: object) -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(name, json.dumps(arguments, separators=(",", ":")))


@dataclass(frozen=True)
class ByTask:
    """Answers the last task in a conversation: one answer after another from there, and the last one from then on.

    Who offers no tools, as for a title or a summary, or who asks for nothing that is known, is told `otherwise`, and how
    long the prompt is, so that nobody is told the same twice.
    """

    tasks: Mapping[str, Sequence[Answer]]
    """Answers by words that a message of the user holds."""
    otherwise: str

    def __call__(self, request: ModelRequest) -> Answer:
        """Return the next answer to the task."""
        said = 0
        for message in reversed(request.messages if request.tools else ()):
            for words, answers in self.tasks.items() if message.role == "user" else ():
                if words in message.content:
                    return answers[min(said, len(answers) - 1)]
            said += message.role == "assistant"
        return Answer(text=f"{self.otherwise} That were {len(request.prompt_ids)} tokens.")


def script(tools: Tools, *, lists: int = 4) -> Callable[[Canaries], Script]:
    """Return what the model says to all tasks; `lists` is how many long ones it reads."""

    def with_canaries(canaries: Canaries) -> Script:
        words = canaries.said
        end = Answer(text=f"At nine, says {words.text}.")
        read = Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(tools.run("cat notes.md"),))
        look = Answer(tool_calls=(tools.run(f"echo {words.arguments}; sleep 0.05"), tools.run("git log --oneline")))
        sub_agent = [read, look, tools.end(f"Nothing new, says {words.text}.")]
        both = Answer(text="Two of them.", tool_calls=(tools.begin(FIRST), tools.begin(SECOND)))
        twins = Answer(tool_calls=(tools.begin(TWIN), tools.begin(TWIN)))
        long = [
            Answer(text=f"List {number}.", tool_calls=(tools.run(f"seq {LIST_LINES}; echo {number}"),))
            for number in range(lists)
        ]
        tasks = {
            MEETING: [read, look, end],
            ASK_TWO: [read, both, look, end],
            ASK_TWINS: [twins, look, end],
            **dict.fromkeys((FIRST, SECOND, TWIN), sub_agent),
            READ_LONG: [*long, end],
            GO_ON: [look, end],
            COUNT: [Answer(text=" ".join(f"number {number}," for number in range(LONG_WORDS)))],
            REFUSED: [read, end],
        }
        return ByTask(tasks, f"All that there is of {words.text}. " * 4)

    return with_canaries
