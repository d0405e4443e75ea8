"""What can go wrong with a request, each under its own name, and how a server's or a socket's error gets that name.

A failure holds nothing that a server wrote freely: its message may echo a prompt. It is read here to tell a prompt
that is too long from other refusals, handed out to be shown once, and kept by nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import aiohttp
import orjson

LONGEST_MESSAGE = 300
"""Characters of a server's message that are shown."""


class FailureKind(StrEnum):
    """Why a request has no usable answer."""

    DNS = "dns"
    """The host name could not be resolved."""
    REFUSED = "refused"
    """Nothing listens there."""
    UNREACHABLE = "unreachable"
    """No connection for another reason: network, TLS, address."""
    DISCONNECTED = "disconnected"
    """The server closed the connection before it answered."""
    NO_ANSWER = "no_answer"
    """Connected and sent, but not a byte came back within the timeout."""
    SILENT_STREAM = "silent_stream"
    """The answer began, then no event came within the timeout."""
    CUT_STREAM = "cut_stream"
    """The answer ended without its last event, or in the middle of a chunk."""
    ERROR_IN_STREAM = "error_in_stream"
    """Status 200, then an error among the events."""
    MALFORMED = "malformed"
    """Not an event stream, not JSON, or without an end."""
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    """No such path or model."""
    PROMPT_TOO_LONG = "prompt_too_long"
    BAD_REQUEST = "bad_request"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    REDIRECTED = "redirected"
    """The server points elsewhere; that is never followed."""
    HTTP_ERROR = "http_error"
    """Any other status than 200."""


NEVER_SENT = frozenset({FailureKind.DNS, FailureKind.REFUSED, FailureKind.UNREACHABLE})
"""The server cannot have seen the prompt."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request as it may be written to a file."""

    kind: FailureKind
    http_status: int | None = None
    error_type: str | None = None
    """The server's own word for the error, if it is one word."""
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class ServerError:
    """What an error body says; `message` is for the terminal only."""

    error_type: str | None
    error_code: str | None
    message: str


_KINDS_OF_STATUS = {
    400: FailureKind.BAD_REQUEST,
    401: FailureKind.UNAUTHORIZED,
    403: FailureKind.FORBIDDEN,
    404: FailureKind.NOT_FOUND,
    413: FailureKind.PROMPT_TOO_LONG,
    422: FailureKind.BAD_REQUEST,
    429: FailureKind.RATE_LIMITED,
}

# OpenAI says context_length_exceeded, llama-server exceed_context_size_error; vLLM, SGLang and TensorRT-LLM have one
# type for every bad request and say it in words only.
_TOO_LONG = re.compile(
    r"context.?(length|size|window)|max_(seq|model|input|num_tokens)\w*|too long|longer than|maximum (model|input) length",
    re.IGNORECASE,
)
_ONE_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,47}\Z|[0-9]{1,6}\Z")


def failure_of_status(status: int, body: bytes) -> tuple[Failure, str]:
    """Name an answer whose status is not 200; the second value is the server's message, to be shown and forgotten."""
    error = read_error(body)
    kind = _KINDS_OF_STATUS.get(status) or _kind_of_class(status)
    if kind is FailureKind.BAD_REQUEST and _is_too_long(error):
        kind = FailureKind.PROMPT_TOO_LONG
    return Failure(kind, status, error.error_type, error.error_code), error.message


def failure_in_stream(event: bytes) -> tuple[Failure, str]:
    """Name an error event inside an answer of status 200."""
    error = read_error(event)
    return Failure(FailureKind.ERROR_IN_STREAM, 200, error.error_type, error.error_code), error.message


def failure_of_client_error(error: aiohttp.ClientError | OSError, *, answered: bool) -> Failure:
    """Name what the HTTP client raised, before or after the server had begun to answer."""
    if answered:
        return Failure(FailureKind.CUT_STREAM, 200)
    match error:
        case aiohttp.ClientConnectorDNSError():
            return Failure(FailureKind.DNS)
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
            return Failure(FailureKind.REFUSED)
        case aiohttp.ClientConnectorError() | aiohttp.InvalidURL():
            return Failure(FailureKind.UNREACHABLE)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | ConnectionError():
            return Failure(FailureKind.DISCONNECTED)
        case aiohttp.ClientResponseError():
            return Failure(FailureKind.MALFORMED)
        case _:
            return Failure(FailureKind.UNREACHABLE)


def read_error(body: bytes) -> ServerError:
    """Read an error body in any of the shapes that servers use; whatever is no JSON is a message."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ServerError(None, None, _shown(body.decode(errors="replace")))
    inner = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(inner, dict):
        return ServerError(None, None, _shown(str(inner)))
    message = inner.get("message") or inner.get("detail") or ""
    return ServerError(_word(inner.get("type")), _word(inner.get("code")), _shown(str(message)))


def _kind_of_class(status: int) -> FailureKind:
    if 300 <= status < 400:
        return FailureKind.REDIRECTED
    return FailureKind.SERVER_ERROR if status >= 500 else FailureKind.HTTP_ERROR


def _is_too_long(error: ServerError) -> bool:
    return any(_TOO_LONG.search(text or "") for text in (error.error_type, error.error_code, error.message))


def _word(value: Any) -> str | None:
    """Return a type or code if it is a single short word; free text could be somebody's."""
    if value is None or isinstance(value, bool):
        return None
    text = str(value)
    return text if _ONE_WORD.match(text) else "unusual"


def _shown(message: str) -> str:
    """Return a message on one line without control characters, which could move the terminal's cursor."""
    printable = "".join(char if char.isprintable() else " " for char in message[: 4 * LONGEST_MESSAGE])
    line = " ".join(printable.split())
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + " ..."
