"""Whoever listens, and whatever goes wrong with that, a client tells its agent the same to the byte."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from http_clients import CLIENTS, Outcome, Taking
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from piecewise_server import PLANS, PiecewiseServer
from sdk_worlds import Ear, heard_by, in_a_thread

from rotoscope.sdk.outgoing import Outgoing, Request

STEPS = ("ask", "headers", "body", "response", "chunk", "end", "failed", "cancelled")
TAKINGS: list[Taking] = ["whole", "raw", "lines", "first"]
BODY = b"said" * 9


class RaisesAt:
    """Hears a request until a step at which it raises, then and ever after."""

    listens = True

    def __init__(self, request: Request, step: str) -> None:
        self._request, self._step = request, step
        self._do("ask")

    @property
    def headers(self) -> Mapping[str, str]:
        self._do("headers")
        return {}

    @property
    def body(self) -> bytes:
        self._do("body")
        return self._request.body

    def _do(self, step: str) -> None:
        if step == self._step:
            raise RuntimeError(step)

    def take_back(self) -> None:
        raise AssertionError("nothing was added")

    def response(self, status: int, content_type: str) -> None:
        self._do("response")

    def chunk(self, data: bytes) -> bytes:
        self._do("chunk")
        return data

    def end(self) -> bytes:
        self._do("end")
        return b""

    def failed(self) -> None:
        self._do("failed")

    def cancelled(self) -> None:
        self._do("cancelled")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[PiecewiseServer, str]]:
    server = PiecewiseServer()
    with in_a_thread(server.serving()) as origin:
        yield server, origin


def comparable(outcome: Outcome, taking: Taking) -> Outcome:
    """Return what is the same each time: how much a first piece is depends on the network."""
    if taking != "first":
        return outcome
    return dataclasses.replace(outcome, content=b"", about=())


@pytest.mark.parametrize("client", sorted(CLIENTS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, taking=st.sampled_from(TAKINGS), step=st.sampled_from(STEPS))
def test_a_client_tells_the_same(
    server: tuple[PiecewiseServer, str], client: str, plan: Any, taking: Taking, step: str
) -> None:
    planned, origin = server
    planned.plan = plan
    planned.requests.clear()

    def raises(request: Request) -> Outgoing:
        return RaisesAt(request, step)

    ask = CLIENTS[client]
    alone = comparable(ask(f"{origin}/a", BODY, taking), taking)
    with heard_by(ear := Ear()):
        heard = comparable(ask(f"{origin}/a", BODY, taking), taking)
    with heard_by(raises):
        unheard = comparable(ask(f"{origin}/a", BODY, taking), taking)

    assert heard == alone
    assert unheard == alone
    assert planned.requests == planned.requests[:1] * 3
    outgoing = ear.heard[0]
    if taking != "first" and not (alone.error or plan.breaks) and plan.encoding in ("", "gzip", "deflate"):
        assert (outgoing.story[-1], outgoing.text) == ("end", plan.text)
    assert outgoing.story[-1] in ("end", "failed", "cancelled")


ADDED = b" and more"


@pytest.mark.parametrize("client", sorted(CLIENTS))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, taking=st.sampled_from(["whole", "lines"]))
def test_what_is_added_does_not_show(
    server: tuple[PiecewiseServer, str], client: str, plan: Any, taking: Taking
) -> None:
    planned, origin = server
    planned.plan = plan
    planned.requests.clear()
    ask = CLIENTS[client]
    alone = ask(f"{origin}/a", BODY, taking)
    with heard_by(ear := Ear(sends=lambda body: body + ADDED)):
        heard = ask(f"{origin}/a", BODY, taking)

    assert (heard.content, heard.status) == (alone.content, alone.status)
    assert heard.error.partition(":")[0] == alone.error.partition(":")[0]
    may_miss = {"content-length", "content-encoding"}
    assert [x for x in alone.headers if x[0].lower() not in may_miss] == [
        x for x in heard.headers if x[0].lower() not in may_miss
    ]
    assert planned.requests[1].endswith(BODY + ADDED)
    is_refused = plan.status == 400
    assert [x.endswith(ADDED) for x in planned.requests] == [False, True, *([False] if is_refused else [])]
    assert ("take back" in ear.heard[0].story) == is_refused


@pytest.mark.parametrize("client", sorted(CLIENTS))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, taking=st.sampled_from(TAKINGS))
def test_who_only_adds_headers_hears_nothing_and_nothing_shows(
    server: tuple[PiecewiseServer, str], client: str, plan: Any, taking: Taking
) -> None:
    planned, origin = server
    planned.plan = plan
    planned.requests.clear()
    ask = CLIENTS[client]
    alone = comparable(ask(f"{origin}/a", BODY, taking), taking)
    with heard_by(ear := Ear(headers={"x-added": "header"}, listens=False)):
        told = comparable(ask(f"{origin}/a", BODY, taking), taking)

    assert told == alone
    assert [b"x-added: header" in x.lower() for x in planned.requests] == [False, True]
    assert [name for name in ear.heard[0].story if name not in ("failed", "cancelled")] == []
