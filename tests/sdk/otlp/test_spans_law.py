"""Laws of spans as traces: they tell what the wire tells, hold no content, and every damage is told.

What agents say and servers answer in a toy world passes a recorder, as through the gateway, and is written as spans in
each spelling. Both must give the same calls with the same prefixes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from chat_worlds import TEMPLATES, TOKENIZERS, World, common, play
from hypothesis import given, settings
from hypothesis import strategies as st
from otlp_spans import Span, agent, chat, file_of, members_of, span, tool
from same_runs import calls_and_prefixes

from rotoscope.traces import Trace, TraceError
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.writer import dumps

Message = dict[str, Any]
Spell = Callable[[Sequence[Message], Any, Message, tuple[int, int]], dict[str, Any]]


def parts_of(message: Message) -> dict[str, Any]:
    """Return a message in the form of the GenAI conventions."""
    parts: list[dict[str, Any]] = []
    if thinking := message.get("reasoning_content"):
        parts.append({"type": "reasoning", "content": thinking})
    if message["role"] == "tool":
        parts.append({"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]})
    elif message.get("content"):
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = json.loads(function["arguments"])
        parts.append({"type": "tool_call", "id": call["id"], "name": function["name"], "arguments": arguments})
    return {"role": message["role"], "parts": parts}


def genai(messages: Sequence[Message], tools: Any, answer: Message, counts: tuple[int, int]) -> dict[str, Any]:
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": counts[0],
        "gen_ai.usage.output_tokens": counts[1],
        "gen_ai.input.messages": json.dumps([parts_of(message) for message in messages]),
        "gen_ai.output.messages": json.dumps([parts_of(answer)]),
        "gen_ai.response.finish_reasons": ["stop"],
    }
    return told | ({"gen_ai.tool.definitions": json.dumps(tools)} if tools else {})


def openinference(messages: Sequence[Message], tools: Any, answer: Message, counts: tuple[int, int]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "llm.token_count.prompt": counts[0],
        "llm.token_count.completion": counts[1],
        "llm.finish_reason": "stop",
    }
    for name, inner in (("input", messages), ("output", [answer])):
        for index, message in enumerate(inner):
            told |= _openinference_message(f"llm.{name}_messages.{index}.message", message)
    for index, schema in enumerate(tools or ()):
        told[f"llm.tools.{index}.tool.json_schema"] = json.dumps(schema)
    return told


def _openinference_message(prefix: str, message: Message) -> dict[str, Any]:
    told = {f"{prefix}.role": message["role"], f"{prefix}.content": message.get("content") or ""}
    if "tool_call_id" in message:
        told[f"{prefix}.tool_call_id"] = message["tool_call_id"]
    if thinking := message.get("reasoning_content"):
        told[f"{prefix}.contents.0.message_content.type"] = "reasoning"
        told[f"{prefix}.contents.0.message_content.text"] = thinking
    for index, call in enumerate(message.get("tool_calls", ())):
        call_prefix = f"{prefix}.tool_calls.{index}.tool_call"
        told[f"{call_prefix}.id"] = call["id"]
        told[f"{call_prefix}.function.name"] = call["function"]["name"]
        told[f"{call_prefix}.function.arguments"] = call["function"]["arguments"]
    return told


def traceloop(messages: Sequence[Message], tools: Any, answer: Message, counts: tuple[int, int]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "llm.request.type": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.prompt_tokens": counts[0],
        "gen_ai.usage.completion_tokens": counts[1],
        "gen_ai.completion.0.finish_reason": "stop",
    }
    for name, inner in (("prompt", messages), ("completion", [answer])):
        for index, message in enumerate(inner):
            told |= _traceloop_message(f"gen_ai.{name}.{index}", message)
    for index, schema in enumerate(tools or ()):
        told |= {
            f"llm.request.functions.{index}.{key}": value if isinstance(value, str) else json.dumps(value)
            for key, value in schema["function"].items()
        }
    return told


def _traceloop_message(prefix: str, message: Message) -> dict[str, Any]:
    told = {f"{prefix}.role": message["role"], f"{prefix}.content": message.get("content") or ""}
    if "tool_call_id" in message:
        told[f"{prefix}.tool_call_id"] = message["tool_call_id"]
    if thinking := message.get("reasoning_content"):
        told[f"{prefix}.reasoning"] = thinking
    for index, call in enumerate(message.get("tool_calls", ())):
        told[f"{prefix}.tool_calls.{index}.id"] = call["id"]
        told[f"{prefix}.tool_calls.{index}.name"] = call["function"]["name"]
        told[f"{prefix}.tool_calls.{index}.arguments"] = call["function"]["arguments"]
    return told


def langfuse(messages: Sequence[Message], tools: Any, answer: Message, counts: tuple[int, int]) -> dict[str, Any]:
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "m",
        "langfuse.observation.usage_details": json.dumps(
            {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}
        ),
        "langfuse.observation.metadata.finish_reason": '"stop"',
        "langfuse.observation.input": json.dumps({"messages": messages, "tools": tools or []}),
        "langfuse.observation.output": json.dumps(answer),
    }


def vercel(messages: Sequence[Message], tools: Any, answer: Message, counts: tuple[int, int]) -> dict[str, Any]:
    asked = [
        {"toolCallId": call["id"], "toolName": call["function"]["name"], "input": call["function"]["arguments"]}
        for call in answer.get("tool_calls", ())
    ]
    told: dict[str, Any] = {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.id": "m",
        "ai.usage.inputTokens": counts[0],
        "ai.usage.outputTokens": counts[1],
        "ai.response.finishReason": "stop",
        "ai.response.text": answer.get("content") or "",
        "ai.response.reasoning": answer.get("reasoning_content") or "",
        "ai.response.toolCalls": json.dumps(asked),
        "ai.prompt.messages": json.dumps([_vercel_message(message) for message in messages]),
    }
    return told | ({"ai.prompt.tools": [json.dumps(tool) for tool in tools]} if tools else {})


def _vercel_message(message: Message) -> dict[str, Any]:
    if message["role"] == "tool":
        result = {"type": "tool-result", "toolCallId": message["tool_call_id"], "output": message["content"]}
        return {"role": "tool", "content": [result]}
    content = [{"type": "reasoning", "text": message["reasoning_content"]}] if message.get("reasoning_content") else []
    content += [{"type": "text", "text": message["content"]}] if message.get("content") else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        told = {"toolCallId": call["id"], "toolName": function["name"], "input": json.loads(function["arguments"])}
        content.append({"type": "tool-call", **told})
    return {"role": message["role"], "content": content}


SPELLINGS: dict[str, Spell] = {spell.__name__: spell for spell in (genai, openinference, traceloop, langfuse, vercel)}


@dataclass
class SpelledWorld(World):
    """A world whose calls are told by spans too."""

    spells: Mapping[str, Spell] = field(default_factory=lambda: SPELLINGS)
    spans: dict[str, list[Span]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.spans = {name: [agent(at=(0, 10_000))] for name in self.spells}

    def call(self, messages: list[Message], tools: Any = None) -> Message:
        sent = json.loads(json.dumps(messages))
        answer = super().call(messages, tools)
        counts = len(self.prompts[-1]), len(self.outputs[-1])
        for name, spell in self.spells.items():
            told = spell(sent, tools, answer, counts)
            self.spans[name].append(span(told, at=(self.now_s - 1, self.now_s), parent=self.spans[name][0]))
        return answer


def world_of(seed: int, *, thinks: bool) -> SpelledWorld:
    random = Random(seed)
    template = TEMPLATES[random.choice(sorted(TEMPLATES))]
    tokenizer = TOKENIZERS[random.choice(sorted(TOKENIZERS))]
    return SpelledWorld(random, template, tokenizer, thinks=thinks)


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_spans_tell_what_the_wire_tells(seed: int, thinks: bool) -> None:
    world = world_of(seed, thinks=thinks)
    play(world, calls=12, sends_thinking_back=False)
    recorded = world.recorder.close()
    assert recorded is not None

    for name, spans in world.spans.items():
        (member,) = members_of(file_of(*spans))
        assert calls_and_prefixes(member.trace) == calls_and_prefixes(recorded), name
        assert [call.tool_calls for call in member.trace.calls()] == [
            tuple(f"tool{int(tool.removeprefix('tool')) - 1}" for tool in call.tool_calls) for call in recorded.calls()
        ]


@pytest.mark.parametrize("seed", range(4))
def test_true_common_prefixes_lie_within_the_bounds_with_and_without_content(seed: int) -> None:
    world = world_of(seed, thinks=seed % 2 == 1)
    play(world, calls=10, sends_thinking_back=False)
    without = [
        {**one, "attributes": [told for told in one["attributes"] if "messages" not in told["key"]]}
        for one in world.spans["genai"]
    ]

    for spans in (world.spans["genai"], without):
        trace = members_of(file_of(*spans))[0].trace
        bounds = PromptBounds(trace)
        for a in range(len(world.prompts)):
            for b in range(a):
                low, high = bounds.common_prefix(b, a)
                assert low <= common(world.prompts[a], world.prompts[b]) <= high


@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_what_prompts_share_with_whole_streams_lies_within_the_bounds(seed: int, is_hidden: bool) -> None:
    """Where outputs are hidden too, as far as later prompts tell them."""
    world = world_of(seed, thinks=False)
    play(world, calls=12, sends_thinking_back=False)
    spans = world.spans["genai"]
    if is_hidden:
        spans = [
            {**one, "attributes": [told for told in one["attributes"] if told["key"] != "gen_ai.output.messages"]}
            for one in spans
        ]

    (member,) = members_of(file_of(*spans))

    grown = [call for call in member.trace.calls() if isinstance(call.prefix.of, int)]
    assert grown
    for call in grown:
        of = call.prefix.of
        assert isinstance(of, int)
        shared = common(world.prompts[call.call], [*world.prompts[of], *world.outputs[of]])
        assert call.prefix.least <= shared <= call.prefix.greatest


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings_of(item)]


@settings(max_examples=20)
@given(st.data())
def test_no_text_of_any_attribute_is_in_a_trace_or_in_what_is_told(data: st.DataObject) -> None:
    world = world_of(data.draw(st.integers(0, 20)), thinks=True)
    play(world, calls=3, sends_thinking_back=True)
    name = data.draw(st.sampled_from(sorted(SPELLINGS)))
    spans = json.loads(json.dumps(world.spans[name]))
    values = [told["value"] for one in spans for told in one["attributes"] if "stringValue" in told["value"]]
    chosen = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=4, unique_by=id))
    for value in chosen:
        value["stringValue"] = _planted(value["stringValue"], "canary")
    fidelity = Fidelity()

    try:
        written = b"".join(dumps(member.trace) for member in members_of(file_of(*spans), fidelity))
    except TraceError as error:
        written = str(error).encode()

    assert b"canary" not in written
    assert "canary" not in "".join(fidelity.lines())


def _planted(text: str, canary: str) -> str:
    """Put a canary into a text, into one of its strings where it is JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return f"{text} {canary}"
    inner = strings_of(value)
    if not inner:
        return canary
    return text.replace(json.dumps(inner[-1])[1:-1], f"{json.dumps(inner[-1])[1:-1]} {canary}")


@settings(max_examples=20)
@given(st.data())
def test_any_value_in_any_place_is_read_or_told_to_be_damage(data: st.DataObject) -> None:
    world = world_of(3, thinks=True)
    play(world, calls=2, sends_thinking_back=True)
    name = data.draw(st.sampled_from(sorted(SPELLINGS)))
    root = json.loads(file_of(*world.spans[name]))
    places = list(_places(root))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places))
        holder[key] = data.draw(st.sampled_from([None, 0, -1, 1.5, "", "x", [], {}, True, 10**30, "\ud800", [[]]]))

    with suppress(TraceError):
        assert all(isinstance(member.trace, Trace) for member in members_of(json.dumps(root).encode()))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place within a JSON value, with what holds it."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, key) for key, _ in items] + [place for _, inner in items for place in _places(inner)]


@st.composite
def trees(draw: st.DrawFn) -> list[Span]:
    """Return spans of any shape: agents, steps, tools and calls below one another, side by side, too late, unfinished."""
    spans: list[Span] = [agent(at=(0, 100))]
    for _ in range(draw(st.integers(1, 14))):
        parent = draw(st.sampled_from(spans))
        start = draw(st.integers(0, 90))
        at = (start, None if draw(st.integers(0, 9)) == 0 else start + draw(st.integers(0, 20)))
        match draw(st.sampled_from(["agent", "step", "tool", "call", "call", "call", "embedding", "root"])):
            case "agent":
                spans.append(agent(at=at, parent=parent))
            case "step":
                spans.append(span({"traceloop.span.kind": "task"}, at=at, parent=parent))
            case "tool":
                spans.append(tool(draw(st.sampled_from("ab")), at=at, parent=parent))
            case "embedding":
                spans.append(span({"gen_ai.operation.name": "embeddings"}, at=at, parent=parent))
            case "root":
                spans.append(agent(at=at, trace=f"{draw(st.integers(1, 3)):032x}"))
            case _:
                told = draw(st.sampled_from([{}, {"gen_ai.conversation.id": "a"}, {"session.id": "b"}, CONTENT]))
                spans.append(chat(draw(st.integers(1, 300)), draw(st.integers(0, 20)), told, at=at, parent=parent))
    return spans


CONTENT = genai([{"role": "user", "content": "How is it?"}], None, {"role": "assistant", "content": "So."}, (1, 1))
del CONTENT["gen_ai.usage.input_tokens"], CONTENT["gen_ai.usage.output_tokens"]


@settings(max_examples=60, deadline=None)
@given(trees(), st.randoms())
def test_spans_of_any_shape_give_valid_traces_of_all_their_calls(spans: list[Span], random: Random) -> None:
    """What is read is validated; here, that no call is lost or told twice, whatever the order of the spans."""
    calls = {one["spanId"]: one for one in spans if one["name"].startswith("chat")}
    parents = {one["spanId"]: one.get("parentSpanId") for one in spans}
    within = [one for one in calls if _stands_within(parents[one], parents, calls)]
    shuffled = spans.copy()
    random.shuffle(shuffled)

    try:
        members = members_of(file_of(*spans))
    except TraceError:
        assert not calls
        return

    found = [call for member in members for call in member.trace.calls()]
    assert len(calls) - len(within) <= len(found) <= len(calls)
    assert within or sorted(call.prompt_tokens for call in found) == sorted(map(_prompt_tokens, calls.values()))
    assert [member.trace for member in members_of(file_of(*shuffled))] == [member.trace for member in members]


def _stands_within(above: str | None, parents: Mapping[str, str | None], calls: Mapping[str, Span]) -> bool:
    while above is not None and above not in calls:
        above = parents[above]
    return above is not None


def _prompt_tokens(call: Span) -> int:
    (told,) = [one["value"] for one in call["attributes"] if one["key"] == "gen_ai.usage.input_tokens"]
    return int(told["intValue"])
