from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from rotoscope.replayer.failures import (
    LONGEST_MESSAGE,
    Failure,
    FailureKind,
    failure_in_stream,
    failure_of_client_error,
    failure_of_status,
    read_error,
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FailureKind.BAD_REQUEST),
        (401, FailureKind.UNAUTHORIZED),
        (403, FailureKind.FORBIDDEN),
        (404, FailureKind.NOT_FOUND),
        (413, FailureKind.PROMPT_TOO_LONG),
        (418, FailureKind.HTTP_ERROR),
        (422, FailureKind.BAD_REQUEST),
        (429, FailureKind.RATE_LIMITED),
        (500, FailureKind.SERVER_ERROR),
        (503, FailureKind.SERVER_ERROR),
        (204, FailureKind.HTTP_ERROR),
        (307, FailureKind.REDIRECTED),
    ],
)
def test_every_status_has_its_name(status: int, kind: FailureKind) -> None:
    failure, _ = failure_of_status(status, b"")

    assert failure == Failure(kind, status)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"no","code":"context_length_exceeded"}}',
        b'{"error":{"code":400,"message":"no","type":"exceed_context_size_error"}}',
        b'{"object":"error","message":"This model\'s maximum context length is 8192 tokens.","type":"BadRequestError"}',
        b'{"message":"The input (9 tokens) is longer than the model\'s context length (8 tokens)."}',
        b'{"error":{"message":"The sum of prompt length (9) and max_tokens should not exceed max_seq_len (8)"}}',
    ],
)
def test_a_prompt_that_is_too_long_is_told_from_other_bad_requests(body: bytes) -> None:
    assert failure_of_status(400, body)[0].kind is FailureKind.PROMPT_TOO_LONG


def test_another_bad_request_keeps_its_name() -> None:
    failure, message = failure_of_status(
        400, b'{"error":{"message":"unknown field","type":"BadRequestError","code":400}}'
    )

    assert failure == Failure(FailureKind.BAD_REQUEST, 400, "BadRequestError", "400")
    assert message == "unknown field"


@pytest.mark.parametrize("body", [b'{"detail":"Not Found"}', b'{"error":"Not Found"}', b'"Not Found"', b"Not Found"])
def test_the_message_is_found_in_every_shape_of_body(body: bytes) -> None:
    assert read_error(body).message == "Not Found"


def test_free_text_as_type_or_code_is_not_kept() -> None:
    error = read_error(b'{"error":{"type":"the prompt was: secret","code":"a b"}}')

    assert (error.error_type, error.error_code) == ("unusual", "unusual")


def test_a_message_cannot_move_the_cursor_nor_fill_the_screen() -> None:
    message = read_error(b'{"message":"\\u001b[2Ja\\nb' + b"c" * 5000 + b'"}').message

    assert message.startswith("[2Ja bc")
    assert len(message) == LONGEST_MESSAGE + len(" ...")


def test_an_error_event_is_a_failure_of_status_200() -> None:
    failure, message = failure_in_stream(b'{"error":{"message":"out of blocks","type":"server_error","code":500}}')

    assert failure == Failure(FailureKind.ERROR_IN_STREAM, 200, "server_error", "500")
    assert message == "out of blocks"


def test_what_breaks_after_the_head_is_a_cut_stream() -> None:
    error = aiohttp.ClientPayloadError("incomplete")

    assert failure_of_client_error(error, answered=True) == Failure(FailureKind.CUT_STREAM, 200)


def test_a_connection_closed_before_the_head_is_a_disconnection() -> None:
    error = aiohttp.ServerDisconnectedError()

    assert failure_of_client_error(error, answered=False) == Failure(FailureKind.DISCONNECTED)


def test_every_kind_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()

    assert [kind for kind in FailureKind if f"`{kind}`" not in page] == []
