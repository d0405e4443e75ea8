from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from answer_dialects import (
    CACHED_TOKENS,
    CHAT,
    DIALECTS,
    MESSAGES,
    PROMPT_TOKENS,
    RESPONSES,
    Dialect,
    framed,
    text_of,
    wire,
)
from completion_server import (
    DONE,
    Answer,
    CompletionServer,
    event,
    good_answer,
    serving_completions,
    stream,
    stream_and_cut,
    stream_and_hang,
    token_event,
    usage_event,
)
from event_loops import in_event_loop
from yarl import URL

from rotoscope.replayer.backends.apis import APIS
from rotoscope.replayer.backends.engines import ANY_ENGINE, ENGINES, Engine
from rotoscope.replayer.backends.http import HttpBackend
from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind

PLENTY_S = 60.0
SHORT_S = 0.5
"""Long enough for the beginning of an answer, also on a machine that is busy."""


class Talk:
    """One backend, and what the server said that was to be shown."""

    def __init__(self, backend: HttpBackend, said: list[tuple[FailureKind, str]]) -> None:
        self.backend = backend
        self.said = said

    async def ask(self, tokens: int = 3, prompt: bytes = b"[1,2,3]") -> tuple[Failure | None, Exchange]:
        exchange = Exchange(prompt=prompt, output_tokens=tokens)
        return await self.backend.perform(exchange), exchange


@contextlib.asynccontextmanager
async def talking(
    url: str,
    *,
    api: str = "completions",
    engine: Engine = ANY_ENGINE,
    timeout_s: float = PLENTY_S,
    connector: aiohttp.BaseConnector | None = None,
) -> AsyncIterator[Talk]:
    said: list[tuple[FailureKind, str]] = []
    async with aiohttp.ClientSession(connector=connector) as http:
        backend = HttpBackend(
            http,
            URL(url) / "v1",
            api=APIS[api],
            model="m",
            engine=engine,
            timeout_s=timeout_s,
            clock=LoopClock(),
            tell=lambda kind, message: said.append((kind, message)),
        )
        yield Talk(backend, said)


async def asked(
    answer: Answer, *, tokens: int = 3, prompt: bytes = b"[1,2,3]", **fields: Any
) -> tuple[Failure | None, Exchange, CompletionServer, Talk]:
    """Ask a server that answers so for one completion."""
    async with serving_completions(answer) as server, talking(server.url, **fields) as talk:
        failure, exchange = await talk.ask(tokens, prompt)
    return failure, exchange, server, talk


def origin_of(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def perfect(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return await stream(request, good_answer(body))


@in_event_loop
async def test_an_answer_is_read_into_its_exchange() -> None:
    failure, exchange, _, _ = await asked(perfect)

    assert failure is None
    assert exchange.output_ids == exchange.whole_output_ids == [5000, 5001, 5002]
    assert (exchange.prompt_tokens, exchange.completion_tokens, exchange.cached_tokens) == (3, 3, 0)
    times = [exchange.sent_s, exchange.answered_s, exchange.first_token_s, exchange.last_token_s, exchange.ended_s]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]


@in_event_loop
async def test_the_request_asks_for_exactly_so_many_tokens_by_ids() -> None:
    _, _, server, _ = await asked(perfect, tokens=7)

    assert server.bodies == [
        {
            "model": "m",
            "prompt": [1, 2, 3],
            "max_tokens": 7,
            "min_tokens": 7,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
    ]


@in_event_loop
async def test_tensorrt_llm_is_sent_no_field_that_it_refuses() -> None:
    _, _, server, _ = await asked(perfect, engine=ENGINES["trtllm"])

    assert server.bodies[0]["detokenize"] is False
    assert "return_token_ids" not in server.bodies[0]


@in_event_loop
async def test_llama_server_tells_ids_among_its_log_probabilities() -> None:
    def llama_event(token: int) -> bytes:
        logprobs = {"content": [{"id": token, "token": "x", "logprob": -1.0, "top_logprobs": []}]}
        return event({"choices": [{"text": "x", "index": 0, "logprobs": logprobs, "finish_reason": None}]})

    async def llama(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        last = {"choices": [{"text": "", "index": 0, "logprobs": None, "finish_reason": "length"}]}
        usage = {"completion_tokens": 2, "prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}
        return await stream(request, [llama_event(700), llama_event(800), event(last | {"usage": usage}), DONE])

    failure, exchange, server, _ = await asked(llama, tokens=2, engine=ENGINES["llama.cpp"])

    assert failure is None
    assert server.bodies[0]["n_probs"] == 1
    assert exchange.whole_output_ids == [700, 800]
    assert exchange.cached_tokens == 1


@in_event_loop
async def test_a_body_of_megabytes_is_sent_without_complaint() -> None:
    prompt = json.dumps([123456] * 300_000).encode()

    async with serving_completions(perfect) as server, talking(server.url) as talk:
        failure, exchange = await talk.ask(1, prompt)

    assert failure is None
    assert exchange.prompt_tokens == 300_000


@in_event_loop
async def test_tokens_are_told_as_they_arrive() -> None:
    delivered: list[int] = []

    async with serving_completions(perfect) as server, talking(server.url) as talk:
        exchange = Exchange(prompt=b"[1]", output_tokens=3, on_delivery=delivered.append)
        await talk.backend.perform(exchange)

    assert delivered == [1, 2, 3]


@in_event_loop
async def test_a_server_without_ids_is_timed_and_counted_by_usage() -> None:
    async def wordy(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        events = [event({"choices": [{"index": 0, "text": "x", "finish_reason": None}]}) for _ in range(20)]
        end = event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        return await stream(request, [*events, end, usage_event(3, 40), DONE])

    failure, exchange, _, _ = await asked(wordy, tokens=40)

    assert failure is None
    assert exchange.whole_output_ids is None
    assert exchange.counted_tokens == 40
    assert exchange.token_events == 20


@in_event_loop
async def test_ids_that_are_fewer_than_the_tokens_are_not_taken_for_the_output() -> None:
    async def gappy(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [token_event(5), token_event(6), usage_event(3, 3), DONE])

    failure, exchange, _, _ = await asked(gappy)

    assert failure is None
    assert exchange.whole_output_ids is None


@in_event_loop
async def test_the_prompt_that_comes_back_with_the_first_token_is_skipped() -> None:
    async def echoing(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        compact = json.dumps([70_000] * 5000, separators=(",", ":"))
        first = b'data: {"choices":[{"index":0,"text":"x","prompt_token_ids":%s,"token_ids":[9]}]}\n\n'
        return await stream(request, [first % compact.encode(), usage_event(3, 1), DONE])

    failure, exchange, _, _ = await asked(echoing, tokens=1)

    assert failure is None
    assert exchange.output_ids == [9]


@in_event_loop
async def test_an_answer_with_finish_reason_needs_no_done() -> None:
    async def terse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [token_event(5), token_event(6, finish_reason="length"), usage_event(3, 2)])

    failure, exchange, _, _ = await asked(terse, tokens=2)

    assert failure is None
    assert exchange.completion_tokens == 2


@in_event_loop
async def test_done_without_its_blank_line_ends_an_answer() -> None:
    async def hasty(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [token_event(5), usage_event(3, 1), b"data: [DONE]"])

    assert (await asked(hasty, tokens=1))[0] is None


@in_event_loop
async def test_a_server_that_does_not_hang_up_after_its_last_event_costs_the_connection_only() -> None:
    async def clinging(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_hang(request, good_answer(body))

    failure, exchange, _, _ = await asked(clinging, timeout_s=SHORT_S)

    assert failure is None
    assert exchange.completion_tokens == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.BAD_REQUEST),
        (401, FailureKind.UNAUTHORIZED),
        (403, FailureKind.FORBIDDEN),
        (404, FailureKind.NOT_FOUND),
        (429, FailureKind.RATE_LIMITED),
        (500, FailureKind.SERVER_ERROR),
        (503, FailureKind.SERVER_ERROR),
    ],
)
@in_event_loop
async def test_a_refusal_is_named_by_its_status(status: int, kind: FailureKind) -> None:
    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no", "type": "some_error", "code": 7}}, status=status)

    failure, exchange, _, talk = await asked(refuse)

    assert failure == Failure(kind, status, "some_error", "7")
    assert talk.said == [(kind, "no")]
    assert exchange.ended_s is not None


@in_event_loop
async def test_a_prompt_that_is_too_long_has_its_own_name() -> None:
    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        error = {"code": 400, "message": "too many", "type": "exceed_context_size_error"}
        return web.json_response({"error": error}, status=400)

    failure, _, _, _ = await asked(refuse)

    assert failure == Failure(FailureKind.PROMPT_TOO_LONG, 400, "exceed_context_size_error", "400")


@in_event_loop
async def test_a_redirect_is_not_followed() -> None:
    async def point_elsewhere(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "http://elsewhere.invalid/"})

    assert (await asked(point_elsewhere))[0] == Failure(FailureKind.REDIRECTED, 307)


@in_event_loop
async def test_an_error_among_the_events_is_named_so() -> None:
    async def failing(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        error = event({"error": {"message": "out of blocks", "type": "server_error", "code": 500}})
        return await stream(request, [token_event(5), error, DONE])

    failure, exchange, _, talk = await asked(failing)

    assert failure == Failure(FailureKind.ERROR_IN_STREAM, 200, "server_error", "500")
    assert talk.said == [(FailureKind.ERROR_IN_STREAM, "out of blocks")]
    assert exchange.output_ids == [5]


@in_event_loop
async def test_an_error_event_is_found_in_a_stream_without_ids() -> None:
    async def failing(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        words = [event({"choices": [{"index": 0, "text": 'say "error"', "finish_reason": None}]})] * 9
        return await stream_and_hang(
            request, [*words, b'error: {"code":500,"message":"full","type":"server_error"}\n\n']
        )

    failure, _, _, _ = await asked(failing)

    assert failure == Failure(FailureKind.ERROR_IN_STREAM, 200, "server_error", "500")


@in_event_loop
async def test_a_request_that_the_server_gave_up_is_an_error_in_the_stream() -> None:
    async def aborting(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [token_event(5, finish_reason="abort"), DONE])

    failure, _, _, _ = await asked(aborting)

    assert failure == Failure(FailureKind.ERROR_IN_STREAM, 200)


@pytest.mark.parametrize("pieces", [[], [token_event(5)], [token_event(5), b'data: {"choices":[']])
@in_event_loop
async def test_a_stream_that_ends_early_is_cut(pieces: list[bytes]) -> None:
    async def cut(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, pieces)

    assert (await asked(cut))[0] == Failure(FailureKind.CUT_STREAM, 200)


@in_event_loop
async def test_a_connection_that_closes_in_the_answer_cuts_it() -> None:
    async def cut(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_cut(request, [token_event(5)])

    failure, exchange, _, _ = await asked(cut)

    assert failure == Failure(FailureKind.CUT_STREAM, 200)
    assert exchange.output_ids == [5]


@in_event_loop
async def test_a_stream_that_falls_silent_ends_after_the_timeout() -> None:
    async def silent(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_hang(request, [token_event(5)])

    failure, _, server, _ = await asked(silent, timeout_s=SHORT_S)

    assert failure == Failure(FailureKind.SILENT_STREAM, 200)
    assert server.hang_ups == 1


@in_event_loop
async def test_comments_do_not_keep_a_silent_stream_alive() -> None:
    async def pinging(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b": ping\n\n")
            await asyncio.sleep(SHORT_S / 10)

    assert (await asked(pinging, timeout_s=SHORT_S))[0] == Failure(FailureKind.SILENT_STREAM, 200)


@in_event_loop
async def test_a_server_that_does_not_answer_is_named_so() -> None:
    async def mute(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    assert (await asked(mute, timeout_s=SHORT_S))[0] == Failure(FailureKind.NO_ANSWER)


@in_event_loop
async def test_a_timeout_bounds_the_silence_and_not_the_answer() -> None:
    async def slow(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in good_answer(body):
            await response.write(piece)
            await asyncio.sleep(SHORT_S / 10)
        await response.write_eof()
        return response

    failure, exchange, _, _ = await asked(slow, tokens=20, timeout_s=SHORT_S)

    assert failure is None
    assert exchange.completion_tokens == 20


@in_event_loop
async def test_an_endless_answer_is_malformed() -> None:
    async def endless(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_hang(request, [token_event(5)] * 200)

    assert (await asked(endless))[0] == Failure(FailureKind.MALFORMED, 200)


@pytest.mark.parametrize(
    "piece",
    [b"data: nothing\n\n", b"data: [1]\n\n", token_event() + b'data: {"choices":[{"token_ids":["a"]}]}\n\n' + DONE],
)
@in_event_loop
async def test_an_answer_that_makes_no_sense_is_malformed(piece: bytes) -> None:
    async def babbling(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_hang(request, [piece])

    assert (await asked(babbling))[0] == Failure(FailureKind.MALFORMED, 200)


@in_event_loop
async def test_an_answer_that_is_no_stream_is_malformed() -> None:
    async def whole(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"choices": [{"text": "x"}]})

    assert (await asked(whole))[0] == Failure(FailureKind.MALFORMED, 200)


@in_event_loop
async def test_a_port_where_nobody_listens_refuses() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with talking(url) as talk:
            failure, _ = await talk.ask()

    assert failure == Failure(FailureKind.REFUSED)


@in_event_loop
async def test_a_host_that_does_not_exist_is_a_failure_of_dns() -> None:
    class NoSuchHost(aiohttp.abc.AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[aiohttp.abc.ResolveResult]:
            raise OSError(f"no such host {host}")

        async def close(self) -> None:
            pass

    async with talking("http://host", connector=aiohttp.TCPConnector(resolver=NoSuchHost())) as talk:
        failure, _ = await talk.ask()

    assert failure == Failure(FailureKind.DNS)


@in_event_loop
async def test_a_server_that_hangs_up_before_it_answers_is_a_disconnection() -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as server, talking(origin_of(server)) as talk:
        failure, _ = await talk.ask()

    assert failure == Failure(FailureKind.DISCONNECTED)


@in_event_loop
async def test_what_is_no_http_is_malformed() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-nothing\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server, talking(origin_of(server)) as talk:
        failure, _ = await talk.ask()

    assert failure == Failure(FailureKind.MALFORMED)


@in_event_loop
async def test_cancelling_a_request_hangs_up_and_keeps_what_came() -> None:
    begun = asyncio.Event()

    async def silent(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_hang(request, [token_event(5)])

    async with serving_completions(silent) as server, talking(server.url) as talk:
        exchange = Exchange(prompt=b"[1]", output_tokens=3, on_delivery=lambda tokens: begun.set())
        task = asyncio.create_task(talk.backend.perform(exchange))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert exchange.output_ids == [5]
    assert exchange.ended_s is not None
    assert server.hang_ups == 1


every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
MESSAGES_PROMPT = b'[{"role":"user","content":"say {\\"role\\":1}"},{"role":"assistant","content":"x"}]'


@every_dialect
@in_event_loop
async def test_an_answer_in_any_dialect_is_read_into_its_exchange(dialect: Dialect) -> None:
    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream(request, [framed(payload) for payload in dialect.answer(9)])

    failure, exchange, server, _ = await asked(answer, tokens=9, api=dialect.api)

    assert failure is None
    assert len(server.bodies) == 1
    assert exchange.counted_tokens == exchange.token_events == 9
    assert (exchange.prompt_tokens, exchange.cached_tokens) == (PROMPT_TOKENS, CACHED_TOKENS)
    times = [exchange.sent_s, exchange.answered_s, exchange.first_token_s, exchange.last_token_s, exchange.ended_s]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]


@every_dialect
@in_event_loop
async def test_an_error_event_in_any_dialect_is_named_and_shown(dialect: Dialect) -> None:
    async def failing(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await stream_and_hang(request, [framed(one) for one in [*dialect.single_tokens([1, 2]), dialect.error]])

    failure, exchange, _, talk = await asked(failing, api=dialect.api)

    assert failure is not None
    assert failure.kind is FailureKind.ERROR_IN_STREAM
    assert talk.said == [(FailureKind.ERROR_IN_STREAM, "out of blocks")]
    assert exchange.token_events == 2


@every_dialect
@pytest.mark.parametrize("end", [stream, stream_and_cut])
@in_event_loop
async def test_a_stream_that_ends_early_is_cut_in_any_dialect(dialect: Dialect, end: Any) -> None:
    async def cut(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        events = [framed(payload) for payload in [*dialect.starts, *dialect.single_tokens([1, 2, 3])]]
        response: web.StreamResponse = await end(request, events)
        return response

    failure, exchange, _, _ = await asked(cut, api=dialect.api)

    assert failure == Failure(FailureKind.CUT_STREAM, 200)
    assert exchange.token_events == 3
    assert exchange.output_ids == ([1, 2, 3] if dialect.has_ids else [])


@in_event_loop
async def test_a_stream_that_says_only_that_it_is_there_falls_silent() -> None:
    """All at once: each has a timeout to wait out."""
    signs = (b"", b'event: ping\ndata: {"type":"ping"}\n\n', b": still here\n\n")
    async with asyncio.TaskGroup() as group:
        for dialect in (CHAT, RESPONSES, MESSAGES):
            for rest in signs:
                group.create_task(falls_silent(dialect, rest), name=f"{dialect.api} {rest!r}")


async def falls_silent(dialect: Dialect, rest: bytes) -> None:
    async def silent(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(wire([*dialect.starts, *dialect.single_tokens([1, 2])]))
        while True:
            await response.write(rest)
            await asyncio.sleep(SHORT_S / 10)

    failure, exchange, server, _ = await asked(silent, api=dialect.api, timeout_s=SHORT_S)

    assert failure == Failure(FailureKind.SILENT_STREAM, 200), (dialect.api, rest)
    assert "".join(exchange.output_text) == text_of([1, 2])
    assert server.hang_ups == 1


@pytest.mark.parametrize("api", APIS)
@in_event_loop
async def test_a_refusal_is_named_in_any_api(api: str) -> None:
    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "try again later"}}
        return web.json_response(error, status=529)

    failure, _, server, talk = await asked(refuse, api=api)

    assert failure == Failure(FailureKind.SERVER_ERROR, 529, "overloaded_error")
    assert talk.said == [(FailureKind.SERVER_ERROR, "try again later")]
    assert len(server.bodies) == 1


@pytest.mark.parametrize("api", APIS)
@in_event_loop
async def test_a_prompt_is_sent_where_the_api_wants_it(api: str) -> None:
    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({}, status=500)

    is_ids = APIS[api].prompts == "ids"

    _, _, server, _ = await asked(refuse, api=api, prompt=b"[1,2,3]" if is_ids else MESSAGES_PROMPT)

    sent = server.bodies[0][APIS[api].prompt_field]
    if is_ids:
        assert sent == [1, 2, 3]
    else:
        assert [(message["role"], message["content"]) for message in sent] == [
            ("user", 'say {"role":1}'),
            ("assistant", "x"),
        ]
        assert {message.get("type") for message in sent} == {"message" if api == "responses" else None}


@in_event_loop
async def test_anthropics_version_is_told_in_its_own_api() -> None:
    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({}, status=500)

    _, _, messages, _ = await asked(refuse, api="messages")
    _, _, chat, _ = await asked(refuse, api="chat")

    assert messages.heads[0]["anthropic-version"] == "2023-06-01"
    assert "anthropic-version" not in chat.heads[0]
