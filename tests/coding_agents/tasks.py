"""Tasks for agents that differ in the names of their tools alone, and what the model says to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clients.script import LONG_WORDS
from clients.scripted_server import Script
from coding_agents.agents import Canaries
from coding_agents.scripts import Numbered, offered

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

MEETING = "When is the meeting"
ASK_TWO = "Ask two others to look at it"
ASK_TWINS = "Ask two others for the same"
ASK_FOUR = "Ask four others for the same"
FIRST, SECOND, TWIN = "Look at the first half of it", "Look at the second half of it", "Look again at all of it"
READ_LONG = "Read the long lists"
READ_OFTEN = "Read the short lists"
GO_ON = "Go on with the lists"
COUNT = "Count without end"
REFUSED = "Please refuse this twice, please: 17"
LIST_LINES = 1000
OFTEN = 31
"""So many turns behind one question are enough for an agent to ask whether it is a loop."""


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


LEVELS = "Look again, {} levels deep"


def tree(tools: Tools, *, levels: int) -> Callable[[Canaries], Script]:
    """Return what the model says to agents that begin two others each, with the same words, to so many levels."""

    def with_canaries(canaries: Canaries) -> Script:
        look = Answer(tool_calls=(tools.run(f"echo {canaries.said.arguments}"), tools.run("true")))
        end = tools.end(f"Nothing new, says {canaries.said.text}.")
        tasks = {LEVELS.format(0): [look, end]}
        for level in range(levels):
            begin = Answer(text="Two of them.", tool_calls=(tools.begin(f"{LEVELS.format(level)}."),) * 2)
            tasks[LEVELS.format(level + 1)] = [begin, look, end]
        return Numbered(ByTask(tasks, f"All that there is of {canaries.said.text}."))

    return with_canaries


SPEAKER = "who should logically speak next"
LOOP = "stuck in a repetitive"
SUMMARIZE = "Summarize the following tool output"
RESPOND = "respond_in_schema"


def checked(script: Callable[[Canaries], Script]) -> Callable[[Canaries], Script]:
    """Return a script that also looks at the work where that is asked for: whose turn it is, whether it is a loop.

    It sums up what tools told, too.
    """

    def with_canaries(canaries: Canaries) -> Script:
        work, text = script(canaries), canaries.said.text
        said = {"reasoning": f"It ended, says {text}.", "next_speaker": "user"}
        looped = {"unproductive_state_analysis": f"It goes on, says {text}.", "unproductive_state_confidence": 0.1}

        def answer(request: ModelRequest) -> Answer:
            asked = request.messages[-1].content
            if SPEAKER in asked:
                is_tool = RESPOND in offered(request)
                return Answer(tool_calls=(tool(RESPOND, **said),)) if is_tool else Answer(text=json.dumps(said))
            if LOOP in asked:
                return Answer(text=json.dumps(looped))
            return Answer(text=f"Numbers, and {text}.") if SUMMARIZE in asked else work(request)

        return answer

    return with_canaries


def numbered(script: Callable[[Canaries], Script]) -> Callable[[Canaries], Script]:
    """Return a script whose answers are told apart by their lengths alone."""
    return lambda canaries: Numbered(script(canaries))


def script(tools: Tools, *, lists: int = 4) -> Callable[[Canaries], Script]:
    """Return what the model says to all tasks; `lists` is how many long ones it reads."""

    def with_canaries(canaries: Canaries) -> Script:
        words = canaries.said
        end = Answer(text=f"At nine, says {words.text}.")
        read = Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(tools.run("cat notes.md"),))
        look = Answer(tool_calls=(tools.run(f"echo {words.arguments}; sleep 0.05"), tools.run("git log --oneline")))
        sub_agent = [read, look, tools.end(f"Nothing new, says {words.text}.")]
        both = Answer(text="Two of them.", tool_calls=(tools.begin(FIRST), tools.begin(SECOND)))
        twins, four = (Answer(tool_calls=(tools.begin(TWIN),) * number) for number in (2, 4))
        long = [
            Answer(text=f"List {number}.", tool_calls=(tools.run(f"seq {LIST_LINES}; echo {number}"),))
            for number in range(lists)
        ]
        often = [Answer(tool_calls=(tools.run(f"echo {number}"),)) for number in range(OFTEN)]
        tasks = {
            MEETING: [read, look, end],
            ASK_TWO: [read, both, look, end],
            ASK_TWINS: [twins, look, end],
            ASK_FOUR: [four, look, end],
            **dict.fromkeys((FIRST, SECOND, TWIN), sub_agent),
            READ_LONG: [*long, end],
            READ_OFTEN: [long[0], *often, end],
            GO_ON: [look, end],
            COUNT: [Answer(text=" ".join(f"number {number}," for number in range(LONG_WORDS)))],
            REFUSED: [read, end],
        }
        return ByTask(tasks, f"All that there is of {words.text}. " * 4)

    return with_canaries
