"""A client that is recorded in any dialect: a conversation that grows, forks, rewinds, compacts and calls tools.

    python dialect_client.py DIALECT SERVER FILE

Talks to OPENAI_BASE_URL, asks SERVER itself after each answer what its prompt was, and writes that to FILE with the texts
that the prompt was made of. It brings conversations to each dialect by itself; nothing of the recorder takes part.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]

SYSTEM = "You are a careful assistant who answers in one short sentence. " + "Keep to the facts that were given. " * 12
TOOLS = [(name, f"Look up the {name} of a town.") for name in ("weather", "population")]
SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}


def say(text: str) -> Message:
    return {"role": "user", "text": text}


def use(name: str, result: str) -> list[Message]:
    """Return a tool call that the model might have made, and its result."""
    return [{"role": "call", "name": name, "text": '{"town": "Ghent"}'}, {"role": "result", "text": result}]


def chat(said: Sequence[Message], tools: Sequence[tuple[str, str]]) -> tuple[str, Any]:
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for one in said:
        match one["role"]:
            case "call":
                function = {"name": one["name"], "arguments": one["text"]}
                call = {"id": "call_1", "type": "function", "function": function}
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            case "result":
                messages.append({"role": "tool", "tool_call_id": "call_1", "content": one["text"]})
            case role:
                messages.append({"role": role, "content": one["text"]})
    body = {"model": "m", "messages": messages, "max_tokens": 12, "temperature": 0}
    functions = [{"name": name, "description": text, "parameters": SCHEMA} for name, text in tools]
    return "/chat/completions", body | (
        {"tools": [{"type": "function", "function": f} for f in functions]} if tools else {}
    )


def messages(said: Sequence[Message], tools: Sequence[tuple[str, str]]) -> tuple[str, Any]:
    asked: list[Any] = []
    for one in said:
        match one["role"]:
            case "call":
                use = {"type": "tool_use", "id": "toolu_1", "name": one["name"], "input": json.loads(one["text"])}
                asked.append({"role": "assistant", "content": [use]})
            case "result":
                result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": one["text"]}
                asked.append({"role": "user", "content": [result]})
            case role:
                asked.append({"role": role, "content": [{"type": "text", "text": one["text"]}]})
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    asked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    body = {"model": "m", "system": system, "messages": asked, "max_tokens": 12, "temperature": 0}
    return "/messages", body | ({"tools": [_tool(one, "input_schema") for one in tools]} if tools else {})


def responses(said: Sequence[Message], tools: Sequence[tuple[str, str]]) -> tuple[str, Any]:
    items: list[Any] = []
    for one in said:
        match one["role"]:
            case "call":
                items.append(
                    {"type": "function_call", "call_id": "call_1", "name": one["name"], "arguments": one["text"]}
                )
            case "result":
                items.append({"type": "function_call_output", "call_id": "call_1", "output": one["text"]})
            case "assistant":
                content = [{"type": "output_text", "text": one["text"], "annotations": []}]
                items.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
            case role:
                items.append({"role": role, "content": [{"type": "input_text", "text": one["text"]}]})
    body = {"model": "m", "instructions": SYSTEM, "input": items, "max_output_tokens": 12, "temperature": 0}
    return "/responses", body | (
        {"tools": [{"type": "function"} | _tool(one, "parameters") for one in tools]} if tools else {}
    )


def completions(said: Sequence[Message], tools: Sequence[tuple[str, str]]) -> tuple[str, Any]:
    text = SYSTEM + "".join(f"\n\n{name}: {description}" for name, description in tools)
    for one in said:
        text += one["text"] if one["role"] == "assistant" else f"\n\n{one['role']}: {one['text']}\n\nassistant:"
    return "/completions", {"model": "m", "prompt": text, "max_tokens": 12, "temperature": 0}


def _tool(tool: tuple[str, str], schema: str) -> dict[str, Any]:
    return {"name": tool[0], "description": tool[1], schema: SCHEMA}


DIALECTS: dict[str, Callable[[Sequence[Message], Sequence[tuple[str, str]]], tuple[str, Any]]] = {
    "chat": chat,
    "messages": messages,
    "responses": responses,
    "completions": completions,
}


class Client:
    """Ask in one dialect, and keep what the server says its prompt was."""

    def __init__(self, dialect: str, server: str) -> None:
        self._body = DIALECTS[dialect]
        self._server = server
        self.seen: list[dict[str, Any]] = []

    def ask(self, *said: Message, tools: Sequence[tuple[str, str]] = ()) -> list[Message]:
        """Return what was said with the model's answer behind it."""
        path, body = self._body(said, tools)
        answer = _fetch(os.environ["OPENAI_BASE_URL"] + path, body)
        texts = [SYSTEM, json.dumps(list(tools)), *(one["role"] + one["text"] for one in said)]
        self.seen.append({"prompt": _fetch(self._server + "/slots")[0]["prompt"], "texts": texts})
        return [*said, {"role": "assistant", "text": _text(answer)}]


def _fetch(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def _text(answer: Any) -> str:
    if "choices" in answer:
        (choice,) = answer["choices"]
        return str(choice["text"] if "text" in choice else choice["message"]["content"])
    pieces = answer["content"] if "content" in answer else answer["output"][-1]["content"]
    return "".join(piece.get("text", "") for piece in pieces)


def converse(client: Client) -> None:
    """Run through the shapes a prompt's history takes."""
    first = client.ask(say("Where does the river Leie end? " * 3))
    second = client.ask(*first, say("And the Scheldt?"))
    third = client.ask(*second, say("Which of them is longer, and by how much, roughly?"))
    client.ask(*second, say("Which of them is wider at its mouth?"))  # a fork after two turns
    client.ask(*first, say("Name three towns on it."))  # a rewind to the first answer
    client.ask(say("Where does the river Leie end? " * 3))  # a retry
    client.ask(say("Where does the river Leie end? " * 2 + "Be brief."), *first[1:], say("Why?"))  # an edit
    client.ask(say("Summary so far: rivers of Flanders. Go on."))  # a compaction
    with_tools = client.ask(say("How is the weather in Ghent?"), tools=TOOLS)
    used = client.ask(*with_tools[:1], *use("weather", "rain, 9 degrees, wind from the west\n" * 6), tools=TOOLS)
    client.ask(*used, say("And tomorrow?"), tools=TOOLS[:1])  # other tools
    client.ask(*third, say("Thank you."))  # back to an old head


def main() -> None:
    dialect, server, path = sys.argv[1:]
    client = Client(dialect, server)
    converse(client)
    Path(path).write_text(json.dumps(client.seen))


if __name__ == "__main__":
    main()
