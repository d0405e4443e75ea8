"""Agents in a toy world: templates and tokenizers whose token streams are known, and a client that goes all ways.

Everything here is independent of the recorder: it renders and tokenizes prompts itself, speaks the wire format to a
recorder, and knows the true common prefixes afterwards.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson
from speech import SPEECHES, Speech

from rotoscope.recorder import Recorder
from rotoscope.recorder.counting import Tally
from rotoscope.recorder.token_counters import TokenCounter
from rotoscope.traces.journal_files import JournalWriter

Message = dict[str, Any]
Tokenizer = Callable[[str], list[str]]
MARK = re.compile(r"(<\|[a-z_]+\|>)")


def bytes_of(text: str) -> list[str]:
    return [chr(byte) for byte in text.encode()]


def words_of(text: str) -> list[str]:
    return re.findall(r" ?\w+|\s+|[^\w\s]", text)


def pieces_of(text: str) -> list[str]:
    """Longest pieces first, up to five letters, whatever they are."""
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def merged_words_of(text: str) -> list[str]:
    return words_of(re.sub(r"\s+", " ", text))


TOKENIZERS: dict[str, Tokenizer] = {
    "bytes": bytes_of,
    "words": words_of,
    "pieces": pieces_of,
    "merged": merged_words_of,
}


def tokenize(text: str, tokenizer: Tokenizer) -> list[str]:
    """Marks are one token each; what stands between them is tokenized by itself."""
    tokens: list[str] = []
    for piece in MARK.split(text):
        if piece:
            tokens.extend([piece] if MARK.fullmatch(piece) else tokenizer(piece))
    return tokens


@dataclass(frozen=True)
class Template:
    """A chat template by what it does."""

    tools_in: str = "system"
    """system (behind its text), first, last_user, nowhere."""
    system_in_last_user: bool = False
    opens_thinking: bool = False
    trims: bool = False
    keeps_thinking: str = "never"
    """never, since_last_user, always: of thinking that was sent back."""
    default_system: bool = False
    tool_role: str = "tool"
    shows_ids: bool = False
    marks: bool = True

    def render(self, messages: list[Message], tools: Any) -> str:
        last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
        out: list[str] = []
        tools_text = "" if not tools else "# Tools\n" + "\n".join(orjson.dumps(t).decode() for t in tools) + "\n"
        system = "".join(_text(m) for m in messages if m["role"] == "system")
        if tools_text and self.tools_in == "first":
            out.append(self._block("tools", tools_text))
        in_system = tools_text if self.tools_in == "system" else ""
        if self.default_system and not system:
            system = "You are a helpful assistant."
            if not self.system_in_last_user:
                out.append(self._block("system", system + in_system))
        elif in_system and not system:
            out.append(self._block("system", in_system))
        for index, message in enumerate(messages):
            text = _text(message)
            if self.trims:
                text = text.strip()
            if message["role"] == "system":
                if not self.system_in_last_user:
                    out.append(self._block("system", text + ("\n" + in_system if in_system else "")))
                    in_system = ""
                continue
            if message["role"] == "user" and index == last_user:
                if tools_text and self.tools_in == "last_user":
                    text = tools_text + text
                if self.system_in_last_user and system:
                    text = system + "\n\n" + in_system + text
            if message["role"] == "assistant":
                thinking = message.get("reasoning_content", "")
                kept = self.keeps_thinking == "always" or (
                    self.keeps_thinking == "since_last_user" and index > last_user
                )
                if thinking and kept:
                    text = f"<think>\n{thinking}\n</think>\n\n{text}"
                for call in message.get("tool_calls", ()):
                    shown = call["id"] if self.shows_ids else ""
                    text += (
                        f"\n<tool_call>{shown}{call['function']['name']} {call['function']['arguments']}</tool_call>"
                    )
            role = self.tool_role if message["role"] == "tool" else message["role"]
            if message["role"] == "tool" and self.shows_ids:
                text = message.get("tool_call_id", "") + text
            out.append(self._block(role, text))
        out.append(f"<|start|>{'assistant'}\n" if self.marks else "### assistant:\n")
        if self.opens_thinking:
            out.append("<think>\n")
        return "".join(out)

    def _block(self, role: str, text: str) -> str:
        return f"<|start|>{role}\n{text}<|end|>\n" if self.marks else f"### {role}:\n{text}\n\n"


TEMPLATES: dict[str, Template] = {
    "tools in the system block": Template(),
    "trimmed": Template(trims=True),
    "opened thinking": Template(opens_thinking=True),
    "tools first": Template(tools_in="first"),
    "tools in the last user message": Template(tools_in="last_user"),
    "no tools, default system": Template(tools_in="nowhere", default_system=True),
    "all in the last user message": Template(tools_in="last_user", system_in_last_user=True, shows_ids=True),
    "thinking since the last user message": Template(keeps_thinking="since_last_user", tool_role="user", trims=True),
    "thinking always": Template(keeps_thinking="always", opens_thinking=True),
    "no marks": Template(marks=False),
}


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(piece["text"] for piece in content)


@dataclass
class World:
    """One model behind one server, and a recorder in front of it."""

    random: Random
    template: Template
    tokenizer: Tokenizer
    counts_end_mark: bool = True
    reports_usage: float = 1.0
    """How often the server says what it counted."""
    measures: float = 0.0
    """How often it tells the token ids of a prompt."""
    thinks: bool = False
    speech: Speech = SPEECHES["chat"]
    """The dialect of client and server."""
    heard: float = 1.0
    """How often a call passes the recorder."""
    said: int = 0
    counter: TokenCounter | None = None
    """What counts the texts that the recorder hands out."""
    now_s: float = 100.0
    prompts: list[list[str]] = field(default_factory=list)
    outputs: list[list[str]] = field(default_factory=list)
    journal: io.BytesIO = field(default_factory=io.BytesIO)
    ids: int = 0

    def __post_init__(self) -> None:
        tokenizer = None if self.counter is None else self.counter.name
        self.recorder = Recorder(JournalWriter(self.journal), tokenizer=tokenizer)
        self.numbers: dict[str, int] = {}

    def text(self, *, longest: int = 40) -> str:
        """Draw a text; beginnings are often alike, spaces are not always single."""
        words = ["a", "be", "cat", "door", "é", "list  of", "\n", "  ", "foo(bar)", "x" * 30]
        picks = [self.random.choice(words) for _ in range(self.random.randint(0, longest))]
        start = self.random.choice(["", "", "The file ", "  The file ", "The  file "]) + self.random.choice(
            ["", "z " * 90]
        )
        return start + " ".join(picks) + self.random.choice(["", "", " ", "\n"])

    def call(self, messages: list[Message], tools: Any = None) -> Message:
        """Send a request and take in the answer, which is returned as a client would send it back."""
        body = orjson.dumps(self.speech.request(messages, tools))
        self.now_s += self.random.choice([0.0, 0.5, 2.0])
        is_heard = self.heard == 1.0 or self.random.random() < self.heard
        recorder = self.recorder if is_heard else Recorder(JournalWriter(io.BytesIO()))
        exchange = recorder.request(self.speech.path, body, at_s=self.now_s)
        prompt = tokenize(self.template.render(messages, tools), self.tokenizer)
        answer = self._answer(bool(tools))
        output = self._output_tokens(answer)
        if is_heard:
            self.prompts.append(prompt)
            self.outputs.append(output)
        self.said += 1
        counts = (len(prompt), len(output)) if self.random.random() < self.reports_usage else None
        response = self.speech.answer(answer, counts, f"r{self.said}")
        self.now_s += 1
        exchange.response(200, at_s=self.now_s, content_type="application/json")
        exchange.chunk(orjson.dumps(response), at_s=self.now_s)
        exchange.end(at_s=self.now_s)
        if self.counter is not None:
            while texts := self.recorder.uncounted():
                self.recorder.counted(Tally(self.counter).count(texts))
        if self.random.random() < self.measures:
            exchange.measured([self.numbers.setdefault(token, len(self.numbers)) for token in prompt])
        return answer

    def _answer(self, has_tools: bool) -> Message:
        answer: Message = {"role": "assistant", "content": self.text(longest=10)}
        if self.thinks and self.random.random() < 0.7:
            answer["reasoning_content"] = self.text(longest=10) + "hm"
        if has_tools and self.random.random() < 0.6:
            answer["tool_calls"] = [self._tool_call() for _ in range(self.random.randint(1, 2))]
        return answer

    def _tool_call(self) -> Message:
        self.ids += 1
        arguments = orjson.dumps({"path": self.text(longest=3)}).decode()
        return {"id": f"call_{self.ids}", "type": "function", "function": {"name": "read", "arguments": arguments}}

    def _output_tokens(self, answer: Message) -> list[str]:
        text = _text(answer)
        if thinking := answer.get("reasoning_content"):
            text = ("" if self.template.opens_thinking else "<think>\n") + f"{thinking}\n</think>\n\n{text}"
        for call in answer.get("tool_calls", ()):
            text += f"\n<tool_call>{call['function']['name']} {call['function']['arguments']}</tool_call>"
        return tokenize(text + ("<|end|>" if self.counts_end_mark and self.template.marks else ""), self.tokenizer)


def play(world: World, *, calls: int, sends_thinking_back: bool) -> None:
    """Be an agent that goes on, forks, rewinds, retries, edits, changes its tools and starts anew."""
    random = world.random
    toolsets = [None, [_tool("read")], [_tool("read"), _tool("write")]]
    systems = [None, "You are an agent.", "You are an agent.\n", "You are an agent. " + "Be good. " * 40 + "A", ""]
    systems[-1] = "You are an agent. " + "Be good. " * 40 + "B"
    tools = random.choice(toolsets)
    states: list[tuple[list[Message], Any]] = []

    def begin() -> tuple[list[Message], Any]:
        system = random.choice(systems)
        start: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        return [*start, {"role": "user", "content": world.text()}], tools

    state = begin()
    for _ in range(calls):
        messages, with_tools = state
        answer = world.call(messages, with_tools)
        states.append((messages, with_tools))
        back = dict(answer)
        if not sends_thinking_back:
            back.pop("reasoning_content", None)
        messages = [*messages, back]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": world.text()} for call in back.get("tool_calls", ())
        ]
        messages.extend(results)
        if not results or random.random() < 0.1:
            messages.append({"role": "user", "content": world.text()})
        state = (messages, with_tools)
        way = random.random()
        if way < 0.12:
            state = random.choice(states)
        elif way < 0.24:
            old, with_tools = random.choice(states)
            cut = random.randint(1, len(old))
            state = ([*old[:cut], {"role": "user", "content": world.text()}], with_tools)
        elif way < 0.34:
            state = (_edited(messages, random), with_tools)
        elif way < 0.42:
            state = begin()
        elif way < 0.5:
            state = (messages, random.choice(toolsets))


def _edited(messages: list[Message], random: Random) -> list[Message]:
    index = random.randrange(len(messages))
    text = _text(messages[index])
    cut = random.randint(0, len(text))
    edited = text[:cut] + random.choice(["", " ", "  ", "é", "Q"]) + text[cut + random.randint(0, 2) :]
    return [*messages[:index], {**messages[index], "content": edited}, *messages[index + 1 :]]


def _tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"{name} a file", "parameters": {}}}


def common(a: list[str], b: list[str]) -> int:
    """Count the leading tokens that two prompts share."""
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return min(len(a), len(b))
