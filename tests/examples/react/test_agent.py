import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletionChunk
from scripted_agent import Played, play, toy_workspace
from sdk_worlds import in_a_thread

from examples import scripted_model
from examples.chat import ToolCall, joined
from examples.react import script
from examples.react.agent import judge, main
from rotoscope.replayer.simulator import model as simulator
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(scripted_model.answer, tmp_path_factory.mktemp("played"))


def test_the_toy_repository_is_repaired(played: Played) -> None:
    assert played.workspace.finished
    assert judge(played.workspace.root)


def test_the_toy_repository_fails_its_tests_as_it_comes(tmp_path: Path) -> None:
    assert not judge(toy_workspace(tmp_path).root)


def test_a_model_that_calls_no_tool_is_asked_again_until_the_steps_are_used_up(tmp_path: Path) -> None:
    played = play(lambda request: simulator.Answer("The weather is fine."), tmp_path, max_steps=3)

    assert len(played.answers) == 3
    assert not played.workspace.finished
    assert [message.role for message in played.requests[-1].messages[-2:]] == ["assistant", "user"]


def test_a_model_that_calls_nonsense_is_told_and_does_not_finish(tmp_path: Path) -> None:
    nonsense = simulator.Answer("", tool_calls=(simulator.ToolCall("fly", "}{"), simulator.ToolCall("search", "7")))

    played = play(lambda request: nonsense, tmp_path, max_steps=2)

    assert not played.workspace.finished
    assert [message.content[:6] for message in played.requests[-1].messages[-2:]] == ["error:", "error:"]


@pytest.mark.parametrize("instead", ["mkdir tests", "touch tests", "ln -s tally tests", "true"])
def test_deleting_the_tests_does_not_pass_them(tmp_path: Path, instead: str) -> None:
    def cheat(request: simulator.ModelRequest) -> simulator.Answer:
        delete = simulator.ToolCall("run_command", json.dumps({"command": f"rm -r tests; {instead}"}))
        return simulator.Answer(tool_calls=(delete, simulator.ToolCall("finish", json.dumps({"summary": "done"}))))

    played = play(cheat, tmp_path)

    assert played.workspace.finished
    assert not judge(played.workspace.root)


def test_every_tool_call_of_an_answer_gets_its_result(played: Played) -> None:
    messages = played.requests[-1].messages
    asked = [call.id for message in messages for call in message.tool_calls]
    assert asked == [message.tool_call_id for message in messages if message.role == "tool"]
    assert any(len(message.tool_calls) > 1 for message in messages)


def test_an_answer_in_pieces_is_put_together() -> None:
    def piece(**delta: object) -> ChatCompletionChunk:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        return ChatCompletionChunk.model_validate(
            {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
        )

    def call(index: int, **function: str) -> dict[str, object]:
        return {"index": index, "function": function, **({"id": f"call{index}"} if "name" in function else {})}

    usage = piece()
    usage.choices = []
    answer = joined(
        [
            piece(role="assistant", content=""),
            piece(content="Let "),
            piece(content="me see."),
            piece(tool_calls=[call(0, name="read_file", arguments="")]),
            piece(tool_calls=[call(0, arguments='{"path"'), call(1, name="finish", arguments="{}")]),
            piece(tool_calls=[call(0, arguments=': "a"}')]),
            usage,
        ]
    )

    assert answer.text == "Let me see."
    assert list(answer.calls.values()) == [
        ToolCall("call0", "read_file", '{"path": "a"}'),
        ToolCall("call1", "finish", "{}"),
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve the scripted model; give the base URL."""
    model = simulator.ScriptedModel(scripted_model.answer)
    with in_a_thread(running_simulator(SimulatorOptions(port=0, speed=0), model)) as origin:
        yield f"{origin}/v1"


@pytest.fixture
def client(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the agent's client at the server, without a key."""
    monkeypatch.setenv("OPENAI_BASE_URL", server)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("reads", [True, False])
def test_the_seed_decides_and_it_says_the_same_streamed_or_not(reads: bool, capsys: pytest.CaptureFixture[str]) -> None:
    seed = str(next(seed for seed in range(100) if script.plan(seed).reads_readme is reads))

    assert main(["--seed", seed, "--max-steps", "2"]) == 1
    streamed = capsys.readouterr().out
    assert main(["--seed", seed, "--max-steps", "2", "--no-stream"]) == 1

    assert streamed == capsys.readouterr().out
    assert ("README.md" in streamed) is reads
    assert streamed.endswith("the model did not finish within 2 steps; the tests fail\n")
