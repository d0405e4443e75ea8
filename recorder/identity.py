"""Who sends a request, by what it says itself: our own headers first, then those of the clients that have some.

A request is read by its headers alone where they name anybody, else by its body. What is found is a session, who sends
within it, and who began that one. Clients differ in what their ids mean:

| client | session | who sends | who began that one |
| --- | --- | --- | --- |
| ours | | `x-rotoscope-branch` | `x-rotoscope-parent` |
| Claude Code | `x-claude-code-session-id`, body `metadata.user_id` | `-agent-id`; none: the main agent | `-parent-agent-id` |
| Codex | `session-id`, `session_id`, body `client_metadata`, `prompt_cache_key` | `thread-id` | `x-codex-parent-thread-id` |
| opencode | | `x-session-id`, `x-session-affinity` | `x-parent-session-id` |
| Dynamo | | `x-dynamo-session-id` | `x-dynamo-parent-session-id` |
| LiteLLM | `x-litellm-session-id`, `-trace-id`, body `litellm_session_id` | | |
| Helicone | `helicone-session-id` | `helicone-session-path` | the path above it |

Codex also tells how often it has summed up what was said: `x-codex-window-id` is an id and that number. Which requests are
beside the work is told by Codex in `x-codex-turn-metadata`, which is read for that only, and by Claude Code, where it is
asked to, with `x-claude-code-request-class`.

The texts are names from outside: they live until their digests are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson

from rotoscope.recorder.own_headers import BRANCH_HEADER, PARENT_HEADER

if TYPE_CHECKING:
    from rotoscope.traces.journal import ThreadSource


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request."""

    session: str = field(default="", repr=False)
    thread: str = field(default="", repr=False)
    """Who within the session; empty for the one that began it, or where nothing is said of that."""
    parent: str = field(default="", repr=False)
    has_parent: bool = False
    """Whether another one of the session began this one."""
    source: ThreadSource | None = None
    """None where nothing is said."""
    window: int | None = None
    """How often its list was summed up, where it tells that."""
    is_aside: bool = False
    """Whether it says that this request is beside its work."""


NOBODY = Identity()
Headers = Mapping[str, str]
Body = Mapping[str, Any]


def identify(headers: Headers, body: Body) -> Identity:
    """Return who sends a request; `headers` are looked up without regard to case by the caller's mapping."""
    found = (read(headers) for read in _BY_HEADERS)
    by_headers = next((identity for identity in found if identity.source), NOBODY)
    return by_headers if by_headers.source else _by_body(body)


def session_of(headers: Headers, body: Body = MappingProxyType({})) -> tuple[str, str]:
    """Return the session that a request is of, and the one that began that one; empty where nothing is said.

    Sessions of clients that name no other than the one that sends are those. `traceparent` is no session: clients that
    are instrumented but not rooted begin a trace for each request.
    """
    by_headers = next((x for read in _BY_HEADERS[1:] if (x := read(headers)).source), NOBODY)
    identity = by_headers if by_headers.source else _by_body(body)
    return identity.session or identity.thread, "" if identity.session else identity.parent


def names_session(body: bytes) -> bool:
    """Tell whether a body may name a session, without reading it: near its beginning or end, as clients do."""
    ends = body[:_NEAR_BYTES] + body[-_NEAR_BYTES:]
    return any(name in ends for name in _IN_BODIES)


def _ours(headers: Headers) -> Identity:
    branch, parent = headers.get(BRANCH_HEADER), headers.get(PARENT_HEADER)
    if not branch:
        return NOBODY
    return Identity("", branch, parent or "", has_parent=parent is not None, source="own")


def _claude_code(headers: Headers) -> Identity:
    """Read the headers of Claude Code: its main agent has a session only, and began those that name no other."""
    agent = headers.get("x-claude-code-agent-id") or ""
    parent = headers.get("x-claude-code-parent-agent-id") or ""
    identity = _client(headers.get("x-claude-code-session-id"), agent, parent, has_parent=bool(agent))
    is_aside = headers.get("x-claude-code-request-class") == "auxiliary"
    return replace(identity, is_aside=is_aside) if identity.source else identity


def _codex(headers: Headers) -> Identity:
    """Read the headers of Codex, whose first thread has an id like all others, that of the session."""
    session = headers.get("session-id") or headers.get("session_id") or ""
    thread = headers.get("thread-id") or headers.get("conversation_id") or ""
    parent = headers.get("x-codex-parent-thread-id") or (session if headers.get("x-openai-subagent") else "")
    identity = _client(session, thread, parent, has_parent=bool(parent) and parent != thread)
    if not identity.source or (not thread and headers.get("x-session-id")):  # opencode has `session-id` for OpenAI, too
        return NOBODY
    return replace(identity, window=_window(headers), is_aside=_makes_title(headers.get("x-codex-turn-metadata")))


def _makes_title(metadata: str | None) -> bool:
    """Tell whether Codex says that it began a thread for a title; that has a session of its own."""
    try:
        told = orjson.loads(metadata or b"")
    except orjson.JSONDecodeError:
        return False
    return isinstance(told, dict) and told.get("thread_source") == "thread_title"


def _window(headers: Headers) -> int | None:
    """Return the number behind the id of a context window, which Codex raises when it sums up what was said."""
    number = (headers.get("x-codex-window-id") or "").rpartition(":")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS else None


def _threads(*names: str, parent: str) -> Callable[[Headers], Identity]:
    """Return a reader of ids that are each who sends, and name who began that one."""

    def read(headers: Headers) -> Identity:
        thread = next((value for name in names if (value := headers.get(name))), "")
        above = headers.get(parent) or ""
        return Identity("", thread, above, has_parent=bool(above), source="client") if thread else NOBODY

    return read


def _litellm(headers: Headers) -> Identity:
    return _client(headers.get("x-litellm-session-id") or headers.get("x-litellm-trace-id"))


def _helicone(headers: Headers) -> Identity:
    path = (headers.get("helicone-session-path") or "").strip("/")
    above = path.rpartition("/")[0]
    return _client(headers.get("helicone-session-id"), path, above, has_parent=bool(above))


_BY_HEADERS: tuple[Callable[[Headers], Identity], ...] = (
    _ours,
    _claude_code,
    _codex,
    _threads("x-dynamo-session-id", parent="x-dynamo-parent-session-id"),
    _threads("x-session-id", "x-session-affinity", parent="x-parent-session-id"),
    _litellm,
    _helicone,
)


def _client(session: str | None, thread: str = "", parent: str = "", *, has_parent: bool = False) -> Identity:
    if not session:
        return NOBODY
    return Identity(session, thread, parent if has_parent else "", has_parent=has_parent, source="client")


_NEAR_BYTES = 2048
_MOST_DIGITS = 9
_IN_BODIES = (b'"user_id"', b'"client_metadata"', b'"litellm_session_id"', b'"prompt_cache_key"')


def _by_body(body: Body) -> Identity:
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and (session := _session_of_user(_text(metadata.get("user_id")))):
        return _client(session)
    if isinstance(codex := body.get("client_metadata"), dict):
        named = {name: _text(value) for name, value in codex.items() if isinstance(name, str)}
        identity = _codex(named | {"thread-id": named.get("thread-id") or named.get("thread_id", "")})
        if identity.source:
            return identity
        if thread := named.get("x-codex-window-id", "").partition(":")[0]:
            parent = named.get("x-codex-parent-thread-id", "")
            return Identity("", thread, parent, has_parent=bool(parent), source="client", window=_window(named))
    return _client(_text(body.get("litellm_session_id")) or _text(body.get("prompt_cache_key")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _session_of_user(user: str) -> str:
    """Return the session in a `user_id` of Claude Code: a JSON object, or one text whose last part it is."""
    try:
        named = orjson.loads(user)
    except orjson.JSONDecodeError:
        return user.rpartition("_session_")[2] if "_session_" in user else ""
    return _text(named.get("session_id")) if isinstance(named, dict) else ""
