"""What mitmproxy by itself would do to an agent, and does not do here."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import mitmproxy.proxy.server
import pytest
from event_loops import in_event_loop
from intercept.fronts import Certificates, Front, new_certificates
from intercept.opened import opened
from loopback import PATIENCE_S
from mitmproxy import ctx, http

from rotoscope.proxy.intercept.harmless import LONGEST_SILENCE_S

STREAMS = 8
GOAWAY, NO_ERROR = b"\0\0\x08\x07\0\0\0\0\0", b"\0\0\0\0"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return new_certificates(tmp_path_factory.mktemp("servers") / "made")


@contextlib.asynccontextmanager
async def serving(serve: Serve, certificates: Certificates, alpn: str, tmp_path: Path) -> AsyncIterator[Front]:
    """Serve connections by TLS with bytes of our own."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    context.set_alpn_protocols([alpn])
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield Front(server.sockets[0].getsockname()[1], certificates, tmp_path)


async def answered(answer: bytes, certificates: Certificates, tmp_path: Path, method: str = "GET") -> tuple[int, bytes]:
    """Return status and body that come to a client of a server of HTTP/1 that answers with bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await reader.read()
        writer.close()

    async with (
        serving(serve, certificates, "http/1.1", tmp_path) as front,
        opened(front, tmp_path / "journal") as one,
        one.connected("1.1") as client,
        asyncio.timeout(PATIENCE_S),
    ):
        whole = await client.ask_whole(method, "/v1/models")
    return whole.status, whole.body


@in_event_loop
async def test_a_trailer_behind_an_answer_of_http1_breaks_nothing(certificates: Certificates, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n"

    came = await answered(head + b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n", certificates, tmp_path)

    assert came == (200, b"hello")


@in_event_loop
async def test_what_comes_before_an_answer_is_not_taken_for_it(certificates: Certificates, tmp_path: Path) -> None:
    before = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"

    came = await answered(before + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", certificates, tmp_path)

    assert came == (200, b"hello")


@in_event_loop
async def test_an_odd_head_is_for_the_client_to_judge(certificates: Certificates, tmp_path: Path) -> None:
    odd = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nX Y: z\r\n\r\n5\r\nhello\r\n0\r\n\r\n"

    assert await answered(odd, certificates, tmp_path) == (200, b"hello")


@in_event_loop
async def test_an_upload_passes_as_it_comes(certificates: Certificates, tmp_path: Path) -> None:
    first_came = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(5)
        first_came.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + await reader.readexactly(6))
        writer.close()

    head = b"POST /v1/files HTTP/1.1\r\nContent-Type: multipart/form-data\r\nContent-Length: 11\r\n\r\n"
    async with (
        serving(serve, certificates, "http/1.1", tmp_path) as front,
        opened(front, tmp_path / "journal") as one,
        one.connected("1.1") as client,
    ):
        client.writer.write(head + b"first")
        await first_came.wait()
        client.writer.write(b"second")
        await client.reader.readuntil(b"\r\n\r\n")
        assert await client.reader.readexactly(6) == b"second"


@in_event_loop
async def test_a_connection_may_be_silent_for_a_day(certificates: Certificates, tmp_path: Path) -> None:
    timeouts: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        handlers = ctx.master.addons.get("proxyserver").connections.values()
        timeouts.extend(handler.timeout_watchdog.timeout for handler in handlers)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with (
        serving(serve, certificates, "http/1.1", tmp_path) as front,
        opened(front, tmp_path / "journal") as one,
        one.connected("1.1") as client,
    ):
        await client.ask("GET", "/")

    assert timeouts == [LONGEST_SILENCE_S]
    assert LONGEST_SILENCE_S == mitmproxy.proxy.server.TCP_TIMEOUT == 24 * 3600


class _Raises:
    """An addon that lets something raise when an answer begins to pass."""

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        def pass_on(_: bytes) -> bytes:
            raise RuntimeError("secret")

        assert flow.response is not None
        flow.response.stream = pass_on


@in_event_loop
async def test_a_connection_on_which_something_raises_is_not_left_open(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server_is_left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        ctx.master.addons.add(_Raises())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        await reader.read()
        server_is_left.set()
        writer.close()

    async with (
        serving(serve, certificates, "http/1.1", tmp_path) as front,
        opened(front, tmp_path / "journal") as one,
        one.connected("1.1") as client,
    ):
        answer = await client.ask("GET", "/")
        assert await answer.piece() == b""
        await server_is_left.wait()

    assert answer.status == 200
    assert "secret" not in caplog.text


@in_event_loop
async def test_a_server_that_takes_no_further_request_ends_what_it_is_answering(
    certificates: Certificates, tmp_path: Path
) -> None:
    has_first = asyncio.Event()
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        state.initiate_connection()
        writer.write(state.data_to_send())
        while data := await reader.read(1 << 16):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    state.send_headers(event.stream_id, [(":status", "200")])
                    state.send_data(event.stream_id, b"first ")
                    writer.write(state.data_to_send())
                    writer.write(GOAWAY + event.stream_id.to_bytes(4) + NO_ERROR)
                    await has_first.wait()
                    state.send_data(event.stream_id, b"second", end_stream=True)
            writer.write(state.data_to_send())
        writer.close()

    async with (
        serving(serve, certificates, "h2", tmp_path) as front,
        opened(front, tmp_path / "journal") as one,
        asyncio.timeout(PATIENCE_S),
        one.connected("2") as client,
    ):
        answer = await client.ask("GET", "/")
        body = await answer.piece()
        has_first.set()
        while piece := await answer.piece():
            body += piece

    assert (answer.status, body, connections) == (200, b"first second", 1)


@in_event_loop
async def test_a_server_that_takes_one_request_a_connection_is_asked_on_as_many_as_there_are(
    certificates: Certificates, tmp_path: Path
) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        state.initiate_connection()
        writer.write(state.data_to_send())
        while data := await reader.read(1 << 16):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    state.send_headers(event.stream_id, [(":status", "200")])
                    writer.write(state.data_to_send())
                    writer.write(GOAWAY + event.stream_id.to_bytes(4) + NO_ERROR)
        writer.close()

    async with (
        serving(serve, certificates, "h2", tmp_path) as front,
        opened(front, tmp_path / "journal") as one,
        one.connected("2") as client,
    ):
        statuses = [(await client.ask("GET", "/")).status for _ in range(STREAMS)]

    assert (statuses, connections) == ([200] * STREAMS, STREAMS)
