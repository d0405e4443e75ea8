"""Law: no text of an argument, a result, an exception or a generator's values is in any span that is exported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from sdk_doubles import Spans, provided_by

from rotoscope import parallel, trace_agent, trace_tool, wait

canaries = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=4, max_size=12)


class Secret(Exception):
    """An exception that tells."""


@trace_tool
def plain(text: str) -> str:
    return text * 2


@trace_tool
def failing(*, text: str) -> str:
    try:
        raise Secret(text)
    except Secret as error:
        error.add_note(text)
        raise ValueError(text) from error


@trace_tool
def said(text: str) -> Iterator[str]:
    heard = yield text
    yield heard or text
    raise Secret(text)


@trace_agent
async def streamed(text: str) -> AsyncIterator[str]:
    yield text
    raise Secret(text)


@trace_agent(name="agent")
class Agent:
    """An agent that holds what it works on."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    async def run(self, **texts: str) -> str:
        with parallel("fan") as fan, fan.branch("branch"):
            plain(self.text)
        with wait("human"), contextlib.suppress(ValueError):
            failing(text=self.text)
        with contextlib.suppress(Secret):
            for value in said(self.text):
                plain(value)
        with contextlib.suppress(Secret):
            async for value in streamed(texts["text"]):
                plain(value)
        with parallel("fan") as fan, fan.branch("branch"):
            raise KeyError(self.text)


@given(text=canaries)
@settings(max_examples=25, deadline=None)
def test_no_canary_is_in_any_exported_span(text: str) -> None:
    spans = Spans()

    with provided_by(spans.provider), pytest.raises(KeyError):
        asyncio.run(Agent(text).run(text=text))

    assert len(spans.ended) == 12
    for span in spans.ended:
        for form in exported(span):
            assert not [canary for canary in forms_of(text) if canary in form]


def exported(span: ReadableSpan) -> list[bytes]:
    """Return a span as exporters send it: as OTLP protobuf where that exporter is installed, and as JSON."""
    forms = [span.to_json().encode(), repr(vars(span)).encode()]
    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    except ImportError:
        return forms
    encoded: Any = encode_spans([span])
    return [*forms, encoded.SerializeToString()]


def forms_of(text: str) -> set[bytes]:
    return {text.encode(), text.encode("unicode_escape"), text.encode("utf-16-le")}
