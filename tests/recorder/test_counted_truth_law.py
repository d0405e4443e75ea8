"""What a recorder counts by itself, against a server that counts with the same encoding behind a template."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chat_wire import Message, Wire, assistant, delta, result, sse, system, tool_call, usage, user

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.token_counters import EncodingCounter, TokenCounter
from rotoscope.traces import Trace
from rotoscope.traces.model import Message as Said

SOURCE = "tokenizer:o200k_base"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Use {name} to work on the files of the repository.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name in ("read_file", "write_file", "run_tests")
]
PROSE = (Path(__file__).parents[2] / "README.md").read_text()
CODE = Path(__file__).read_text()


@pytest.fixture(scope="module")
def o200k() -> EncodingCounter:
    return EncodingCounter("o200k_base")


@dataclass
class Server:
    """Counts prompts in the way of ChatML, with a system block that says how to call tools."""

    counter: TokenCounter
    preamble: str = "# Tools\n\nYou may call one or more functions. Their signatures are within <tools></tools>:\n"

    def prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Any] | None = None) -> int:
        """Return the tokens of a rendered prompt; each mark of the template is one."""
        tokens = 3  # the answer's header
        if tools:
            schemas = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
            tokens += self.counter.count(self.preamble) + self.counter.count(schemas)
        return tokens + sum(5 + self.output_tokens(message) for message in messages)

    def output_tokens(self, message: Message) -> int:
        """Return the tokens of a message's text and calls, with what is written around them."""
        text = message["content"]
        for call in message.get("tool_calls", ()):
            function = call["function"]
            text += (
                f'\n<tool_call>\n{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}\n</tool_call>'
            )
        return self.counter.count(text)


@dataclass
class Script:
    """An agent that works on a repository: what it says, what its tools say, where it goes back."""

    wire: Wire
    server: Server
    tells: Callable[[int], bool]
    """Whether the server tells what it counted of a call."""
    tools: list[Any] | None = None
    prompts: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def call(self, messages: list[Message], answer: Message) -> list[Message]:
        """Make a call, and let its texts be counted."""
        prompt = self.server.prompt_tokens(messages, self.tools)
        output = self.server.output_tokens(answer)
        counts = usage(prompt, output) if self.tells(len(self.prompts)) else None
        fields: dict[str, Any] = {"tools": self.tools} if self.tools else {}
        grown = self.wire.call(messages, answer, counts=counts, **fields)
        self.wire.count()
        self.prompts.append(prompt)
        self.outputs.append(output)
        return grown

    def play(self) -> Trace:
        messages = [system(PROSE[:1500]), user("Fix the failing test, and tell me what it was.")]
        for step, start in enumerate(range(0, 2400, 400)):
            asks = [tool_call(f"c{step}", "read_file", json.dumps({"path": f"src/module_{step}.py"}))]
            messages = self.call(messages, assistant(f"I look at file {step} now.", calls=asks))
            messages = [*messages, result(f"c{step}", CODE[start : start + 400 + 100 * step])]
        self.call(messages[:6], assistant("I go back, and look at another one."))
        self.call([*messages, user("And now?")], assistant(PROSE[1500:1900]))
        self.call([messages[0], user("Summarise: " + PROSE[2000:3000])], assistant("It is about recordings."))
        return self.wire.close()


def played(
    counter: TokenCounter, *, tells: Callable[[int], bool], tools: list[Any] | None = None
) -> tuple[Script, Trace]:
    script = Script(Wire(counter=counter), Server(counter), tells, tools)
    return script, script.play()


def misses(script: Script, trace: Trace) -> list[tuple[int, int]]:
    """Return by how much prompt and output of each call are off."""
    true = zip(script.prompts, script.outputs, strict=True)
    return [
        (abs(call.prompt_tokens - prompt), abs(call.completion_tokens - output))
        for call, (prompt, output) in zip(trace.calls(), true, strict=True)
    ]


def test_a_server_that_never_tells_is_near_what_is_usual_for_templates(o200k: EncodingCounter) -> None:
    script, trace = played(o200k, tells=lambda _: False)

    for call, prompt, (miss, miss_of_output) in zip(trace.calls(), script.prompts, misses(script, trace), strict=True):
        assert miss <= 0.03 * prompt
        assert miss_of_output <= (6 if call.tool_calls else 0)


@pytest.mark.parametrize(("told", "most"), [(1, 30), (2, 18), (4, 3)])
def test_calls_that_tell_teach_the_template_for_those_that_do_not(o200k: EncodingCounter, told: int, most: int) -> None:
    script, trace = played(o200k, tells=lambda call: call < told, tools=TOOLS)

    assert max(miss for miss, _ in misses(script, trace)) <= most
    assert misses(script, trace)[:told] == [(0, 0)] * told


def test_each_number_says_where_it_comes_from(o200k: EncodingCounter) -> None:
    _, never = played(o200k, tells=lambda _: False)
    _, trace = played(o200k, tells=lambda call: call < 2, tools=TOOLS)
    calls, messages = list(trace.calls()), [event for event in trace.events if isinstance(event, Said)]

    assert never.token_source == SOURCE
    assert {call.prompt_tokens_source for call in never.calls()} == {None}
    assert trace.token_source == "usage"
    assert [call.prompt_tokens_source for call in calls] == [None] * 2 + [SOURCE] * 7
    assert [call.completion_tokens_source for call in calls] == [None] * 2 + [SOURCE] * 7
    assert {message.tokens_source for message in messages} == {SOURCE}


def test_a_journal_gives_the_same_trace(o200k: EncodingCounter) -> None:
    script, trace = played(o200k, tells=lambda call: call < 2, tools=TOOLS)

    assert build_trace(script.wire.written()).trace == trace


def test_of_a_cancelled_answer_exactly_what_was_delivered_is_counted(o200k: EncodingCounter) -> None:
    pieces = ["The", " tests", " fail", " because", " the", " path", " is", " wrong", "."]
    for delivered in range(1, len(pieces) + 1):
        wire = Wire(counter=o200k)
        exchange = wire.ask([user("Why?")], stream=True)
        exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
        exchange.chunk(sse(delta({"content": "".join(pieces[:delivered])})), at_s=wire.now_s)
        exchange.cancelled(at_s=wire.now_s)
        wire.count()
        [call] = wire.calls()

        assert (call.finish_reason, call.completion_tokens) == ("cancelled", delivered)


def test_thinking_is_told_apart_where_the_usage_does_not(o200k: EncodingCounter) -> None:
    thinking, said = " hm" * 90, "done " * 10
    wire = Wire(counter=o200k)
    wire.call([user("x")], assistant(said, thinking=thinking), counts=usage(9, 100))
    wire.call([user("y")], assistant(said, thinking=thinking))
    wire.count()
    told, counted = wire.calls()

    assert told.reasoning_tokens == round(100 * o200k.count(thinking) / (o200k.count(thinking) + o200k.count(said)))
    assert counted.reasoning_tokens == o200k.count(thinking)


def parted_at(server: Server, counter: TokenCounter | None, start: str) -> int:
    """Return where two prompts part that begin with `start`, before messages that take many tokens for their bytes."""
    wire = Wire(counter=counter)
    dense = " ".join(f"{number:x}" for number in range(7 * 10**8, 7 * 10**8 + 400))
    for first in ("one", "other"):
        messages = [user(start), user(f"{first} {dense}")]
        wire.call(messages, assistant("ok"), counts=usage(server.prompt_tokens(messages), 1))
    if counter is not None:
        wire.count()
    return wire.calls()[1].prefix.tokens


def test_prompts_part_nearer_to_where_they_do(o200k: EncodingCounter) -> None:
    server, start = Server(o200k), PROSE[:3000]
    truth = 5 + 3 + o200k.count(start)

    by_bytes, by_counts = parted_at(server, None, start), parted_at(server, o200k, start)

    assert abs(by_counts - truth) <= 5
    assert abs(by_counts - truth) < abs(by_bytes - truth) / 5
