"""Who sends a request, by what it says itself: our own headers first, then those of the clients that have some.

The texts are names from outside: they live until their digests are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from rotoscope.traces.journal import ThreadSource

BRANCH_HEADER = "x-rotoscope-branch"
PARENT_HEADER = "x-rotoscope-parent"

_CLIENTS: tuple[tuple[str, str, str], ...] = (
    ("x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id"),
    ("session-id", "thread-id", "x-codex-parent-thread-id"),
    ("x-dynamo-parent-session-id", "x-dynamo-session-id", "x-dynamo-parent-session-id"),
    ("", "x-dynamo-session-id", ""),
    ("", "x-session-id", "x-parent-session-id"),
    ("", "x-litellm-session-id", ""),
    ("", "helicone-session-id", ""),
)
"""Headers of a session, of who sends within it, and of who began that one; the first line whose session is there, or
whose sender is there where it has no session, holds."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request."""

    session: str = field(default="", repr=False)
    thread: str = field(default="", repr=False)
    """Who within the session; empty for the one that began it."""
    parent: str = field(default="", repr=False)
    has_parent: bool = False
    """Whether another one of the session began this one."""
    source: ThreadSource | None = None
    """None where nothing is said."""


NOBODY = Identity()


def identify(headers: Mapping[str, str], body: Mapping[str, Any]) -> Identity:
    """Return who sends a request; `headers` are looked up without regard to case by the caller's mapping."""
    if branch := headers.get(BRANCH_HEADER):
        parent = headers.get(PARENT_HEADER)
        return Identity("", branch, parent or "", has_parent=parent is not None, source="own")
    for session_header, thread_header, parent_header in _CLIENTS:
        session, thread = headers.get(session_header) or "", headers.get(thread_header) or ""
        if session or (thread and not session_header):
            parent = headers.get(parent_header) if parent_header else None
            has_parent = bool(thread) and bool(session_header or parent)
            return Identity(session, thread, parent or "", has_parent=has_parent, source="client")
    session = _session_of(body)
    return Identity(session, source="client") if session else NOBODY


def _session_of(body: Mapping[str, Any]) -> str:
    """Return the session that a body names."""
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and isinstance(user := metadata.get("user_id"), str):
        return _session_of_user(user)
    session = body.get("litellm_session_id")
    return session if isinstance(session, str) else ""


def _session_of_user(user: str) -> str:
    """Return the session in a `user_id` of Claude Code: a JSON object, or one text whose last part it is."""
    try:
        named = orjson.loads(user)
    except orjson.JSONDecodeError:
        return user.rpartition("_session_")[2] if "_session_" in user else ""
    session = named.get("session_id") if isinstance(named, dict) else None
    return session if isinstance(session, str) else ""
