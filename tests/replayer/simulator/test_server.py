from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from event_loops import in_event_loop
from simulated import Client, openai_client, simulated

from rotoscope.replayer.server_metrics.families import read_metrics
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.simulator.tokenizer import vocabulary_size
from rotoscope.traces.errors import RunFailed, UnusableInput

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {}}}]


@in_event_loop
async def test_it_says_that_it_is_a_simulator() -> None:
    async with simulated() as client:
        front = await client.ask("/")
        (card,) = (await client.ask("/v1/models"))["data"]
        answer = await client.ask("/v1/completions", {"prompt": "Hi"})

    assert front["simulated"] is True
    assert card["id"] == "rotoscope-simulator"
    assert card["meta"]["simulated"] is True
    assert "simulator" in answer["system_fingerprint"]
    assert answer["model"] == "rotoscope-simulator"


@in_event_loop
async def test_the_model_card_tells_vocabulary_context_and_cache() -> None:
    async with simulated(blocks=100, profile="trtllm-whole-blocks") as client:
        card = await client.ask("/v1/models/rotoscope-simulator")

    assert card["max_model_len"] == 3200
    assert card["meta"]["n_vocab"] == vocabulary_size()
    meta = card["meta"]
    assert (meta["profile"], meta["block_size"], meta["blocks"]) == ("trtllm-whole-blocks", 32, 100)


@in_event_loop
async def test_probes_are_answered() -> None:
    async with simulated() as client:
        assert (await client.ask("/health"))["status"] == "ok"
        for path in ("/", "/health", "/v1/models", "/metrics"):
            async with client.session.head(client.url + path) as response:
                assert response.status == 200
                assert response.headers["x-rotoscope-simulated"] == "true"


@in_event_loop
async def test_the_openai_client_lists_models() -> None:
    async with simulated(model="mine/model") as client, openai_client(client) as real:
        assert [model.id async for model in real.models.list()] == ["mine/model"]
        assert (await real.models.retrieve("mine/model")).id == "mine/model"


@in_event_loop
async def test_a_text_is_tokenized_and_back() -> None:
    async with simulated() as client:
        tokens = await client.ask("/tokenize", {"model": "rotoscope-simulator", "prompt": "Hi you <|im_end|>"})
        same = await client.ask("/tokenize", {"content": "Hi you <|im_end|>"})
        text = await client.ask("/detokenize", {"tokens": tokens["tokens"]})
        nothing = await client.ask("/detokenize", {"tokens": []})

    assert tokens["count"] == len(tokens["tokens"])
    assert tokens["max_model_len"] == 8192 * 16
    assert same == tokens
    assert text == {"prompt": "Hi you <|im_end|>"}
    assert nothing == {"prompt": ""}


@pytest.mark.parametrize("tools", [[], TOOLS])
@in_event_loop
async def test_template_tokenizer_and_chat_agree(tools: list[dict[str, Any]]) -> None:
    body = {"messages": MESSAGES, "tools": tools}
    async with simulated() as client:
        text = (await client.ask("/apply-template", body))["prompt"]
        from_text = await client.ask("/tokenize", {"prompt": text})
        from_messages = await client.ask("/tokenize", body)
        chat = await client.ask("/v1/chat/completions", body | {"return_token_ids": True, "max_tokens": 1})

    assert from_text == from_messages
    assert chat["prompt_token_ids"] == from_text["tokens"]
    assert chat["usage"]["prompt_tokens"] == from_text["count"]
    assert ("ls" in text) is bool(tools)


@in_event_loop
async def test_the_generation_prompt_can_be_left_out() -> None:
    async with simulated() as client:
        without = await client.ask("/apply-template", {"messages": MESSAGES, "add_generation_prompt": False})

    assert without["prompt"].endswith("Hi<|im_end|>")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/completions", {"model": "gpt", "prompt": "Hi"}, 404, "model_not_found"),
        ("/v1/chat/completions", {"model": "gpt", "messages": MESSAGES}, 404, "model_not_found"),
        ("/v1/models/gpt", None, 404, "model_not_found"),
        ("/v1/nothing", None, 404, None),
        ("/v1/completions", None, 405, None),
        ("/v1/completions", [1], 400, None),
        ("/v1/completions", {}, 400, None),
        ("/v1/completions", {"prompt": [1, 2.5]}, 400, None),
        ("/v1/completions", {"prompt": [300] * 100, "max_tokens": 61}, 400, "context_length_exceeded"),
        ("/v1/completions", {"prompt": [300] * 161}, 400, "context_length_exceeded"),
        ("/v1/completions", {"prompt": "Hi", "max_tokens": 4, "min_tokens": 5}, 400, None),
        ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 160}, 400, "context_length_exceeded"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x " * 200}]}, 400, "context_length_exceeded"),
        ("/v1/chat/completions", {"messages": "Hi"}, 400, None),
        ("/tokenize", {"model": "x"}, 400, None),
        ("/detokenize", {"tokens": [-1]}, 400, None),
        ("/detokenize", {"tokens": "Hi"}, 400, None),
        ("/apply-template", {"messages": []}, 400, None),
    ],
)  # fmt: skip
@in_event_loop
async def test_what_cannot_be_answered_is_refused_in_openais_form(
    path: str, body: Any, status: int, code: str | None
) -> None:
    async with simulated(blocks=10) as client:
        error = (await client.ask(path, body, status=status))["error"]

    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == code
    assert error["type"] == "invalid_request_error"
    assert "Traceback" not in error["message"]


@in_event_loop
async def test_bad_json_is_refused() -> None:
    async with simulated() as client:
        error = await client.ask("/v1/completions", data=b'{"prompt": ', status=400)

    assert "not valid JSON" in error["error"]["message"]


@in_event_loop
async def test_the_whole_context_can_be_used() -> None:
    async with simulated(blocks=10) as client:
        answer = await client.ask("/v1/completions", {"prompt": [300] * 100, "max_tokens": 60, "ignore_eos": True})

    assert answer["usage"]["total_tokens"] == 160


@in_event_loop
async def test_a_client_that_goes_away_within_an_answer_is_nothing_to_report(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes its connection just before a write, when the server has not been told of that yet."""
    write = web.StreamResponse.write

    async def write_too_late(response: web.StreamResponse, data: bytes) -> None:
        transport = cast(Any, response)._req.transport
        transport.close()
        await write(response, data)

    async with simulated() as client:
        monkeypatch.setattr(web.StreamResponse, "write", write_too_late)
        with pytest.raises(aiohttp.ClientError):
            await client.stream("/v1/completions", {"prompt": "Hi", "max_tokens": 2})
        assert (await client.ask("/health"))["status"] == "ok"

    assert not caplog.records


@in_event_loop
async def test_a_model_that_fails_is_a_server_error_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: object) -> None:
        raise ValueError("CANARY")

    async with simulated(fail) as client:
        error = (await client.ask("/v1/completions", {"prompt": "Hi"}, status=500))["error"]
        assert (await client.ask("/health"))["status"] == "ok"

    assert error["type"] == "server_error"
    assert error["message"] == "the simulator failed: ValueError"
    assert "request failed: ValueError" in caplog.text
    assert "in fail" in caplog.text
    assert 'raise ValueError("CANARY")' in caplog.text
    assert caplog.text.count("CANARY") == 1, "the message itself is not logged"


@in_event_loop
async def test_it_listens_on_loopback_and_stops() -> None:
    async with running_simulator() as url:
        host, port = url.removeprefix("http://").split(":")
        assert host == "127.0.0.1"

    with pytest.raises(OSError, match=r"[Rr]efused|111|61"):
        await asyncio.open_connection(host, int(port))


@in_event_loop
async def test_a_port_in_use_is_a_failed_run() -> None:
    async with running_simulator() as url:
        with pytest.raises(RunFailed, match=r"cannot listen on 127\.0\.0\.1 port"):
            async with running_simulator(SimulatorOptions(port=int(url.rpartition(":")[2]))):
                pass


@in_event_loop
async def test_what_the_host_tier_gives_back_counts_as_cached_and_is_told_apart_in_the_metrics() -> None:
    first, second = [300] * 100, [400] * 100
    async with simulated(blocks=10, host_blocks=100) as client:
        for prompt in (first, second, first):
            answer = await client.ask("/v1/completions", {"prompt": prompt, "max_tokens": 2})
        counted = read_metrics(await metrics_text(client))
        (card,) = (await client.ask("/v1/models"))["data"]

    assert card["meta"]["host_blocks"] == 100
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 96
    assert counted is not None
    assert counted.prompt is not None
    assert counted.cached is not None
    assert counted.external_prompt is not None
    assert counted.host_cached is not None
    # each prompt fills 6 blocks of 16 and takes 7 of 10: of the first one's the deepest 3 make way for the second
    assert (counted.prompt.total, counted.cached.total) == (300, 48)
    assert (counted.external_prompt.total, counted.host_cached.total) == (252, 48)


@pytest.mark.parametrize(("router", "cached"), [("round-robin", [0, 0, 96, 192]), ("kv", [0, 96, 192, 288])])
@in_event_loop
async def test_a_conversation_stays_on_a_replica_or_goes_round(router: str, cached: list[int]) -> None:
    answers = []
    async with simulated(replicas=2, router=router) as client:
        for turn in range(1, 5):
            answers.append(await client.ask("/v1/completions", {"prompt": [300] * 100 * turn, "max_tokens": 2}))
        text = await metrics_text(client)
        (card,) = (await client.ask("/v1/models"))["data"]
    counted = read_metrics(text)

    assert [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers] == cached
    assert counted is not None
    assert counted.prompt is not None
    assert counted.cached is not None
    assert (counted.prompt.total, counted.cached.total) == (1000, sum(cached))
    assert 'engine="1"' in text
    assert (card["meta"]["replicas"], card["meta"]["router"]) == (2, router)


@pytest.mark.parametrize("router", ["round-robin", "kv"])
@in_event_loop
async def test_one_replica_is_the_same_behind_every_router(router: str) -> None:
    async def served(**options: Any) -> tuple[list[Any], list[str]]:
        answers = []
        async with simulated(blocks=30, **options) as client:
            for first in (300, 400, 300, 350, 400):
                body = {"prompt": list(range(first, first + 200)), "n": 2, "max_tokens": 9, "return_token_ids": True}
                answer = await client.ask("/v1/completions", body)
                answers.append((answer["usage"], answer["choices"]))
            counts = [line for line in (await metrics_text(client)).splitlines() if "_seconds" not in line]
            return answers, counts

    assert await served(replicas=1, router=router) == await served()


async def metrics_text(client: Client) -> str:
    async with client.session.get(client.url + "/metrics") as response:
        return await response.text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "0 blocks"),
        ({"host_blocks": -1}, "-1 blocks are no host tier"),
        ({"max_batch": 0}, "a batch of 0"),
        ({"replicas": 0}, "0 replicas"),
        ({"replicas": 1_000_000}, "1000000 replicas are more than 1,000"),
        ({"blocks": 999_999_999}, "999999999 blocks of each replica: all of them may have 100,000,000"),
        ({"blocks": 60_000_000, "replicas": 2}, "60000000 blocks of each replica"),
    ],
)
def test_options_that_make_no_server_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        SimulatorOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "x"}, "profile 'x'"),
        ({"block_size": 0}, "block size 0"),
        ({"router": "x"}, "unknown router 'x': there are round-robin, kv"),
    ],
)
@in_event_loop
async def test_a_profile_or_router_that_there_is_not_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        async with running_simulator(SimulatorOptions(**options)):
            pass


def test_the_api_of_the_documentation_is_there() -> None:
    page = (Path(__file__).parents[3] / "docs/serve.md").read_text()

    assert "from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator" in page
