"""What the scripted model says: think and call one tool, then two at the same time, then an answer in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

LONG_WORDS = 20_000


@dataclass(frozen=True, slots=True)
class Words:
    """The canaries that the server's side says."""

    text: str
    thinking: str
    arguments: str
    error: str


@dataclass(frozen=True, slots=True)
class Script:
    """Plays its part for any client: it looks at the tools offered and at how often it has answered."""

    words: Words

    def __call__(self, request: ModelRequest) -> Answer:
        """Return the next answer of a conversation."""
        last = request.messages[-1].content if request.messages else ""
        if "ount without end" in last:
            return Answer(text=" ".join(f"number {number}," for number in range(LONG_WORDS)))
        offered = {str(tool["function"]["name"]): tool["function"] for tool in request.tools}
        useful = [name for name in ("weather", "population", "bash") if name in offered]
        said = sum(message.role == "assistant" for message in request.messages)
        if useful and said == 0:
            return Answer(
                text="I look that up.",
                reasoning=f"The question is about {self.words.thinking}, so the first tool is enough for now.",
                tool_calls=(self._call(useful[0], 0),),
            )
        if useful and said == 1:
            names = (useful * 2)[:2]
            return Answer(text="", tool_calls=tuple(self._call(name, rank + 1) for rank, name in enumerate(names)))
        return self._end(offered)

    def _end(self, offered: Mapping[str, Any]) -> Answer:
        text = f"The tools told me what I wanted to know, and {self.words.text} as well."
        if "final_answer" in offered:
            return Answer(text="", tool_calls=(ToolCall("final_answer", json.dumps({"answer": text})),))
        if "bash" in offered:
            done = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
            return Answer(text=text, tool_calls=(ToolCall("bash", json.dumps(done)),))
        return Answer(text=text, reasoning=f"Now I know enough of {self.words.thinking}.")

    def _call(self, name: str, number: int) -> ToolCall:
        told = f"{self.words.arguments} {number}"
        arguments = {"command": f"echo {told}"} if name == "bash" else {"town": f"Ghent {told}"}
        return ToolCall(name, json.dumps(arguments))
