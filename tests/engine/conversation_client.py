"""A client that is recorded: a conversation that grows, forks, rewinds, edits, retries and calls tools.

    python conversation_client.py BODIES

Talks to OPENAI_BASE_URL and writes the body of every request it made to the file BODIES, so that the test can ask the
server what the prompts really were. Answers are the model's; what is wrong with them does not matter here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI

Messages = list[dict[str, Any]]

SYSTEM = "You are a careful assistant who answers in one short sentence. " + "Keep to the facts that were given. " * 12
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Look up the {name} of a town.",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
        },
    }
    for name in ("weather", "population")
]


class Client:
    """Ask, remember what was asked, and give back the answer as a message."""

    def __init__(self) -> None:
        self._openai = OpenAI(api_key="none", max_retries=0)
        self.bodies: list[dict[str, Any]] = []

    def ask(self, messages: Messages, *, tools: list[dict[str, Any]] | None = None, stream: bool = False) -> Messages:
        """Return the messages with the model's answer at their end."""
        body: dict[str, Any] = {"model": "any", "messages": messages, "max_tokens": 16, "temperature": 0}
        if tools:
            body["tools"] = tools
        self.bodies.append(body)
        return [*messages, {"role": "assistant", "content": self._answer(body, stream=stream)}]

    def _answer(self, body: dict[str, Any], *, stream: bool) -> str:
        if stream:
            chunks = self._openai.chat.completions.create(**body, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        return str(self._openai.chat.completions.create(**body).choices[0].message.content or "")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def use_tool(messages: Messages, name: str, result: str) -> Messages:
    """Go on as if the model had called a tool, which a model this small does not do by itself."""
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"town": "Ghent"}'}}
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [*messages, asked, {"role": "tool", "tool_call_id": "call_1", "content": result}]


def converse(client: Client) -> None:
    """Run through the shapes a prompt's history takes."""
    start = [{"role": "system", "content": SYSTEM}, user("Where does the river Leie end? " * 3)]
    first = client.ask(start, stream=True)
    second = client.ask([*first, user("And the Scheldt?")])
    third = client.ask([*second, user("Which of them is longer, and by how much, roughly?")], stream=True)
    client.ask([*second, user("Which of them is wider at its mouth?")])  # a fork after two turns
    client.ask([*first, user("Name three towns on it.")], stream=True)  # a rewind to the first answer
    client.ask(start)  # a retry
    edited = [start[0], user("Where does the river Leie end? " * 2 + "Be brief."), *first[2:], user("Why?")]
    client.ask(edited)  # an edit in the middle of a message
    client.ask([start[0], user("Something else: what is a lock on a canal?")])  # a new conversation
    client.ask([user("No system prompt here. What is a weir?")])
    client.ask([start[0], user("Summary so far: rivers of Flanders."), user("Go on.")])  # a compaction
    with_tools = client.ask([*start, user("How is the weather in Ghent?")], tools=TOOLS)
    used = client.ask(use_tool(with_tools, "weather", "rain, 9 degrees, wind from the west\n" * 6), tools=TOOLS)
    client.ask([*used, user("And tomorrow?")], tools=TOOLS[:1])  # other tools
    client.ask([*third, user("Thank you.")], stream=True)  # back to an old head


def main() -> None:
    client = Client()
    converse(client)
    Path(sys.argv[1]).write_text(json.dumps(client.bodies))


if __name__ == "__main__":
    assert os.environ.get("OPENAI_BASE_URL"), "run it under `rotoscope record`"
    main()
