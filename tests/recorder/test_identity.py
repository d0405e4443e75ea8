from __future__ import annotations

import orjson
import pytest
from multidict import CIMultiDict

from rotoscope.recorder.identity import NOBODY, Identity, identify


def said(headers: dict[str, str], body: dict[str, object] | None = None) -> Identity:
    return identify(CIMultiDict(headers), body or {})


def test_who_says_nothing_is_nobody() -> None:
    assert said({"user-agent": "Agents/Python", "authorization": "Bearer x"}) == NOBODY


def test_our_own_header_comes_before_those_of_clients() -> None:
    found = said({"X-Rotoscope-Branch": "b", "X-Rotoscope-Parent": "a", "X-Claude-Code-Session-Id": "s"})

    assert found == Identity("", "b", "a", has_parent=True, source="own")


@pytest.mark.parametrize(
    ("headers", "identity"),
    [
        ({"x-claude-code-session-id": "s"}, Identity("s", source="client")),
        (
            {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"},
            Identity("s", "a", has_parent=True, source="client"),
        ),
        (
            {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"},
            Identity("s", "b", "a", has_parent=True, source="client"),
        ),
        ({"session-id": "s", "thread-id": "t"}, Identity("s", "t", has_parent=True, source="client")),
        (
            {"x-session-id": "u", "x-parent-session-id": "t"},
            Identity("", "u", "t", has_parent=True, source="client"),
        ),
        ({"x-session-id": "t"}, Identity("", "t", source="client")),
    ],
)
def test_the_headers_of_clients_are_read(headers: dict[str, str], identity: Identity) -> None:
    assert said(headers) == identity


@pytest.mark.parametrize(
    "user", [orjson.dumps({"device_id": "d", "session_id": "s"}).decode(), "user_d_account__session_s"]
)
def test_a_session_in_the_body_is_read(user: str) -> None:
    assert said({}, {"metadata": {"user_id": user}}) == Identity("s", source="client")


def test_no_part_of_an_identity_is_shown() -> None:
    assert "s3cret" not in repr(Identity("s3cret", "s3cret", "s3cret"))
