"""What a server says about itself before a run: its model, its engine, its vocabulary, and whether it is a simulator."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import orjson
from yarl import URL

from rotoscope.replayer.backends.engines import ANY_ENGINE, Engine, engine_named, engine_of_card
from rotoscope.replayer.failures import FailureKind, failure_of_client_error, failure_of_status
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces.errors import RunFailed, UnusableInput

DEFAULT_VOCABULARY = Vocabulary(1000, 30000)
"""Where the server does not tell its own: ordinary tokens in every model of the field."""

_ENDS_WITH_VERSION = re.compile(r"/v[0-9]+[a-z0-9]*(/openai)?$")
"""As the paths of hosted endpoints do that have another version than 1, or several APIs below it."""
_LARGEST_ANSWER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Server:
    """A server as far as it is known."""

    model: str
    engine: Engine = ANY_ENGINE
    vocabulary: Vocabulary | None = None
    """Ids of ordinary tokens, if it says how many ids there are."""
    context_tokens: int | None = None
    """Most tokens of a prompt and its output together, if it says so."""
    is_listed: bool = True
    """False where it lists its models and this is none of them: an adapter or another name perhaps, or an error."""
    simulated: bool = False
    profile: str | None = None
    """Name and block size of the cache's profile, which only a simulator tells."""
    block_size: int | None = None
    replicas: int | None = None
    """Engines with a cache of their own behind its address, which a simulator tells."""
    max_batch: int | None = None
    """Most requests in the batch of all its replicas together, which a simulator tells."""
    version: str | None = None
    """Of the server's program."""


def api_url(text: str) -> URL:
    """Return the URL of the API, up to and with its version, from one given with or without it: `/v1` if none is."""
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError as error:
        raise UnusableInput(f"{text!r} is no URL: expected one like http://127.0.0.1:8000") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise UnusableInput(f"{text!r} is no URL of a server: expected one like http://127.0.0.1:8000")
    if url.query_string or url.fragment:
        raise UnusableInput("expected a URL without ? and #, up to and with /v1")
    path = url.path.rstrip("/")
    return url.with_path(path if _ENDS_WITH_VERSION.search(path) else f"{path}/v1")


def ordinary_ids(n_vocab: int) -> Vocabulary:
    """Return the ids of ordinary tokens among `n_vocab`.

    Control and byte tokens stand first (up to 1000 in the models of the field, 300 in small vocabularies) or last
    (up to 1.1 %, with padding): both ends are left out.
    """
    low = 1000 if n_vocab >= 10_000 else min(300, n_vocab // 4)
    high = n_vocab - n_vocab // 50
    return Vocabulary(low, high)


async def ask_server(
    http: aiohttp.ClientSession, url: URL, *, model: str | None, timeout_s: float, engine: str | None = None
) -> Server:
    """Ask `/v1/models` for what is not given; raise RunFailed when nobody answers or the model stays unknown."""
    try:
        async with asyncio.timeout(timeout_s):
            status, body = await body_of(http, url / "models")
    except (TimeoutError, aiohttp.ClientError, OSError, UnicodeError) as error:
        raise RunFailed(_unreachable(url, error)) from error
    cards = _cards(body) if status == 200 else {}
    if model is None:
        model = _only_model(url, status, body, list(cards))
    server = server_of_card(model, cards.get(model) or (next(iter(cards.values())) if len(cards) == 1 else {}))
    server = replace(server, is_listed=not cards or model in cards)
    return server if engine is None else replace(server, engine=engine_named(engine))


async def body_of(http: aiohttp.ClientSession, url: URL) -> tuple[int, bytes]:
    """Return the status of a page and its beginning, as much as any answer of use is long."""
    async with http.get(url, allow_redirects=False) as response:
        body = b""
        while len(body) < _LARGEST_ANSWER_BYTES and (data := await response.content.readany()):
            body += data
        return response.status, body


def _cards(body: bytes) -> dict[str, dict[str, Any]]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    data = answer.get("data") if isinstance(answer, dict) else None
    cards = [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []
    return {card["id"]: card for card in cards if isinstance(card.get("id"), str)}


def _only_model(url: URL, status: int, body: bytes, models: list[str]) -> str:
    if len(models) == 1:
        return models[0]
    if models:
        raise UnusableInput(f"the server offers several models, choose one with --model: {', '.join(sorted(models))}")
    if status == 200:
        raise RunFailed(f"{_shown(url)}/models names no model: choose one with --model")
    kind = failure_of_status(status, body)[0].kind
    raise RunFailed(f"{_shown(url)}/models answered with status {status} ({kind}): {_advice(kind)}")


def _advice(kind: FailureKind) -> str:
    if kind in (FailureKind.UNAUTHORIZED, FailureKind.FORBIDDEN):
        return "name the environment variable that holds the key with --api-key-env"
    if kind is FailureKind.NOT_FOUND:
        return "check the URL, or name the model with --model"
    return "name the model with --model"


def server_of_card(model: str, card: dict[str, Any]) -> Server:
    """Return what a card of `/v1/models` tells."""
    meta = card.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    return Server(
        model,
        engine=engine_of_card(card),
        vocabulary=ordinary_ids(n) if (n := _positive(meta.get("n_vocab"))) and n >= 4 else None,
        context_tokens=_positive(card.get("max_model_len")) or _positive(meta.get("n_ctx")),
        simulated=meta.get("simulated") is True,
        profile=profile if isinstance(profile := meta.get("profile"), str) else None,
        block_size=_positive(meta.get("block_size")),
        replicas=_positive(meta.get("replicas")),
        max_batch=(_positive(meta.get("max_batch")) or 0) * (_positive(meta.get("replicas")) or 1) or None,
    )


def _positive(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**32 else None


def _unreachable(url: URL, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"{_shown(url)} does not answer: check the URL, or wait longer with --timeout"
    if not isinstance(error, aiohttp.ClientError | OSError):  # a host name that is none
        return f"{_shown(url)} is no address of a server: correct the URL"
    kind = failure_of_client_error(error, answered=False).kind
    reason = {
        FailureKind.REFUSED: "nothing listens at",
        FailureKind.DNS: "no such host as in",
        FailureKind.DISCONNECTED: "the connection was closed by",
    }.get(kind, "cannot connect to")
    return f"{reason} {_shown(url)}: start the server or correct the URL"


def _shown(url: URL) -> str:
    """Return a URL without user and password."""
    return str(url.with_user(None))
