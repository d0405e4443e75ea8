import argparse
import asyncio
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web
from raw_server import serving
from sdk_worlds import in_a_thread
from simulated import openai_client, simulated

from examples.chat import Answer, Model, NoAnswer, ToolCall, at_least_one, conversation, told_why_not
from rotoscope.replayer.simulator import model as simulator
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SAID = simulator.Answer(
    "I look around.",
    reasoning="Where may it be?",
    tool_calls=(simulator.ToolCall("look", '{"place": "here"}'), simulator.ToolCall("look", '{"place": "there"}')),
)


def ask(
    said: simulator.Answer, *, stream: bool, seed: int | None = None, tools: bool = True
) -> tuple[Answer, simulator.ModelRequest]:
    """Ask a model over the wire; return what was heard, and what the model was asked."""
    requests = []

    def answer(request: simulator.ModelRequest) -> simulator.Answer:
        requests.append(request)
        return said

    async def asked() -> Answer:
        async with simulated(answer) as client, openai_client(client) as asking:
            model = Model(asking, "rotoscope-simulator", stream, seed)
            return await model.ask([{"role": "user", "content": "Hello"}], [TOOL] if tools else [])  # type: ignore[list-item]

    return asyncio.run(asked()), requests[0]


def test_an_answer_in_one_piece_and_one_in_many_are_heard_alike_and_without_the_thinking() -> None:
    whole, _ = ask(SAID, stream=False)
    joined, _ = ask(SAID, stream=True)

    for heard in (whole, joined):
        assert heard.text == "I look around."
        assert [(call.name, call.arguments) for call in heard.calls.values()] == [
            ("look", '{"place": "here"}'),
            ("look", '{"place": "there"}'),
        ]
        assert len({call.id for call in heard.calls.values()} - {""}) == 2


def test_an_empty_answer_is_heard_as_one() -> None:
    assert ask(simulator.Answer(), stream=False)[0] == ask(simulator.Answer(), stream=True)[0] == Answer()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", "<html>Welcome</html>"),
        ("application/json", "{oops"),
        ("application/json", "[]"),
        ("application/json", '{"error": "none"}'),
        ("application/json", '{"choices": []}'),
        ("text/event-stream", "data: {}\n\ndata: [DONE]\n\n"),
    ],
)
def test_what_is_no_chat_completion_is_told_as_that(kind: str, body: str, stream: bool) -> None:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(content_type=kind, text=body)

    async def asked() -> None:
        async with (
            serving({"/v1/chat/completions": respond}) as url,
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        ):
            await Model(client, "m", stream).ask([{"role": "user", "content": "Hello"}])

    with pytest.raises(NoAnswer, match="no chat completion"):
        asyncio.run(asked())


def test_half_characters_are_joined_or_replaced() -> None:
    heard = Answer("\ud83d\ude00 \ud83d!", {0: ToolCall("c", "look", '"\ude00"')}).readable()

    assert heard == Answer("\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}!", {0: ToolCall("c", "look", '"\ufffd"')})


def test_seed_and_tools_are_sent_where_there_are_any() -> None:
    _, with_all = ask(SAID, stream=True, seed=7)
    _, bare = ask(SAID, stream=False, tools=False)

    assert (with_all.seed, [tool["function"]["name"] for tool in with_all.tools]) == (7, ["look"])
    assert (bare.seed, bare.tools) == (0, ())


def test_an_answer_stands_in_the_conversation_as_it_was_said() -> None:
    heard = Answer("I look.", {0: ToolCall("c1", "look", "{}")})

    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": "c1", "type": "function", "function": function}]
    assert heard.message() == {"role": "assistant", "content": "I look.", "tool_calls": calls}
    assert Answer("Done.").message() == {"role": "assistant", "content": "Done."}


def test_a_conversation_begins_with_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("You look.\n")

    assert conversation(tmp_path / "system.md", "Where?") == [
        {"role": "system", "content": "You look.\n"},
        {"role": "user", "content": "Where?"},
    ]


def test_who_cannot_reach_a_model_is_told_where_it_was_looked_for_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    request: Any = None

    told = told_why_not(openai.APIConnectionError(request=request))

    assert told.startswith("the model at http://localhost:1/v1 cannot be asked: Connection error. ")
    assert "python -m examples.offline" in told


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with in_a_thread(running_simulator(SimulatorOptions(port=0, speed=0))) as origin:
        yield f"{origin}/v1"


@pytest.mark.parametrize("agent", ["react", "deep_research", "iterative_research", "tree_of_thought", "agentic_rag"])
def test_a_server_that_refuses_is_told_by_each_agent_in_one_line(
    agent: str, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server)

    assert importlib.import_module(f"examples.{agent}.agent").main(["--model", "no-such-model"]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"the model at {server} cannot be asked: ")


def test_what_a_model_answers_is_told_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    assert told_why_not(openai.OpenAIError("no\n <br>\n")) == "the model at its makers cannot be asked: no <br>"
    assert len(told_why_not(openai.OpenAIError("no" * 10_000))) < 400


@pytest.mark.parametrize("text", ["0", "-1", "x", ""])
def test_a_limit_below_one_is_refused(text: str) -> None:
    assert at_least_one("12") == 12
    with pytest.raises(argparse.ArgumentTypeError, match="is no number from 1 on"):
        at_least_one(text)
