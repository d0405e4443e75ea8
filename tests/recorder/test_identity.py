from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from multidict import CIMultiDict

from rotoscope.recorder.identity import NOBODY, Identity, identify, names_session, session_of

TRACE = "0af7651916cd43dd8448eb211c80319c"


def said(headers: dict[str, str], body: dict[str, Any] | None = None) -> Identity:
    return identify(CIMultiDict(headers), body or {})


def client(session: str = "", thread: str = "", parent: str | None = None) -> Identity:
    return Identity(session, thread, parent or "", has_parent=parent is not None, source="client")


@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "Agents/Python", "authorization": "Bearer x"},
        {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
        {"x-claude-code-agent-id": "a"},
        {"x-claude-code-request-class": "auxiliary"},
        {"thread-id": "t"},
        {"x-rotoscope-parent": "a"},
        {"x-session-id": ""},
    ],
)
def test_who_says_nothing_is_nobody(headers: dict[str, str]) -> None:
    assert said(headers) == NOBODY


def test_our_own_header_comes_before_those_of_clients() -> None:
    found = said({"X-Rotoscope-Branch": "b", "X-Rotoscope-Parent": "a", "X-Claude-Code-Session-Id": "s"})

    assert found == Identity("", "b", "a", has_parent=True, source="own")


@pytest.mark.parametrize(
    ("headers", "identity"),
    [
        ({"x-claude-code-session-id": "s"}, client("s")),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, client("s", "a", "")),
        (
            {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"},
            client("s", "b", "a"),
        ),
        (
            {"x-claude-code-session-id": "s", "x-claude-code-request-class": "auxiliary"},
            replace(client("s"), is_aside=True),
        ),
        ({"x-claude-code-session-id": "s", "x-claude-code-request-class": "main"}, client("s")),
        ({"session-id": "s", "thread-id": "s"}, client("s", "s")),
        ({"session-id": "s", "thread-id": "t", "x-codex-parent-thread-id": "s"}, client("s", "t", "s")),
        ({"session-id": "s", "thread-id": "t", "x-openai-subagent": "review"}, client("s", "t", "s")),
        ({"session-id": "s", "thread-id": "t", "x-codex-window-id": "t:2"}, replace(client("s", "t"), window=2)),
        ({"session-id": "s", "thread-id": "t", "x-codex-window-id": "t:x"}, client("s", "t")),
        ({"session-id": "s", "thread-id": "t", "x-codex-window-id": "9" * 30}, client("s", "t")),
        (
            {"session-id": "s", "thread-id": "s", "x-codex-turn-metadata": '{"thread_source": "thread_title"}'},
            replace(client("s", "s"), is_aside=True),
        ),
        ({"session-id": "s", "thread-id": "s", "x-codex-turn-metadata": '{"thread_source": "user"}'}, client("s", "s")),
        ({"session-id": "s", "thread-id": "s", "x-codex-turn-metadata": '["thread_title"'}, client("s", "s")),
        ({"session-id": "s", "thread-id": "s", "x-codex-turn-metadata": "[]"}, client("s", "s")),
        ({"session_id": "s", "conversation_id": "s"}, client("s", "s")),
        ({"x-session-id": "t"}, client("", "t")),
        ({"x-session-affinity": "t"}, client("", "t")),
        ({"x-session-id": "u", "x-parent-session-id": "t"}, client("", "u", "t")),
        ({"session-id": "u", "x-session-id": "u", "x-parent-session-id": "t"}, client("", "u", "t")),
        ({"x-dynamo-session-id": "t"}, client("", "t")),
        ({"x-dynamo-session-id": "u", "x-dynamo-parent-session-id": "t"}, client("", "u", "t")),
        ({"x-litellm-session-id": "s", "x-litellm-trace-id": "t"}, client("s")),
        ({"x-litellm-trace-id": "t"}, client("t")),
        ({"helicone-session-id": "s"}, client("s")),
        ({"helicone-session-id": "s", "helicone-session-path": "/plan"}, client("s", "plan")),
        ({"helicone-session-id": "s", "helicone-session-path": "/plan/search/"}, client("s", "plan/search", "plan")),
    ],
)
def test_the_headers_of_clients_are_read(headers: dict[str, str], identity: Identity) -> None:
    assert said(headers) == identity


@pytest.mark.parametrize(
    ("body", "identity"),
    [
        ({"metadata": {"user_id": orjson.dumps({"device_id": "d", "session_id": "s"}).decode()}}, client("s")),
        ({"metadata": {"user_id": "user_d_account__session_s"}}, client("s")),
        ({"client_metadata": {"session_id": "s", "thread_id": "t"}}, client("s", "t")),
        (
            {"client_metadata": {"session_id": "s", "thread_id": "t", "x-codex-parent-thread-id": "s"}},
            client("s", "t", "s"),
        ),
        (
            {"client_metadata": {"x-codex-window-id": "t:3"}, "prompt_cache_key": "t"},
            replace(client("", "t"), window=3),
        ),
        ({"client_metadata": {"x-codex-installation-id": "i"}, "prompt_cache_key": "t"}, client("t")),
        ({"litellm_session_id": "s"}, client("s")),
        ({"prompt_cache_key": "k"}, client("k")),
    ],
)
def test_a_session_in_the_body_is_read(body: dict[str, Any], identity: Identity) -> None:
    assert said({}, body) == identity


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": {"user_id": "somebody"}},
        {"metadata": {"user_id": 3}},
        {"metadata": "x", "client_metadata": [], "prompt_cache_key": {}},
        {"metadata": {"user_id": "[1]"}, "client_metadata": {"session_id": 1}},
    ],
)
def test_a_body_that_names_nobody_is_nobodys(body: dict[str, Any]) -> None:
    assert said({}, body) == NOBODY


def test_headers_come_before_the_body_and_are_not_mixed_with_it() -> None:
    assert said({"x-litellm-session-id": "s"}, {"prompt_cache_key": "k"}) == client("s")


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, ("s", "")),
        ({"session-id": "s", "thread-id": "t", "x-codex-parent-thread-id": "s"}, ("s", "")),
        ({"x-session-id": "u", "x-parent-session-id": "t"}, ("u", "t")),
        ({"x-rotoscope-branch": "b", "x-litellm-session-id": "s"}, ("s", "")),
        ({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, ("", "")),
        ({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-session-id": "t"}, ("t", "")),
        ({}, ("", "")),
    ],
)
def test_the_session_alone_is_read_from_the_headers(headers: dict[str, str], session: tuple[str, str]) -> None:
    assert session_of(CIMultiDict(headers)) == session


@pytest.mark.parametrize(
    ("body", "session"),
    [
        ({"metadata": {"user_id": '{"session_id": "s"}'}}, ("s", "")),
        ({"litellm_session_id": "s"}, ("s", "")),
        ({"prompt_cache_key": "s"}, ("s", "")),
        ({"client_metadata": {"x-codex-window-id": "s:1", "x-codex-parent-thread-id": "r"}}, ("s", "r")),
    ],
)
def test_the_session_is_read_from_the_body_where_no_header_has_it(
    body: dict[str, Any], session: tuple[str, str]
) -> None:
    assert names_session(orjson.dumps(body))
    assert session_of({}, body) == session
    assert session_of({"x-litellm-session-id": "h"}, body) == ("h", "")


def test_text_that_looks_like_the_name_of_a_session_is_not_taken_for_one() -> None:
    assert not names_session(orjson.dumps({"messages": [{"role": "user", "content": '{"user_id": "x"}'}]}))


def test_no_part_of_an_identity_is_shown() -> None:
    assert "s3cret" not in repr(Identity("s3cret", "s3cret", "s3cret"))
