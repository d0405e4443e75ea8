"""Coding agents that go to their makers' hosts, through `rotoscope record --intercept`: the trace is the gateway's."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from clients.checks import kept_content, other_lengths, sent_canaries
from clients.truth import findings, true_calls
from coding_agents.agents import Agent, Canaries, agent_named
from coding_agents.conftest import FOLDER, NAMES, Performer
from coding_agents.playing import Played, perform
from coding_agents.vendor import PYTHON, why_not

from rotoscope.traces import Trace
from rotoscope.traces.masked import masked
from rotoscope.traces.model import ToolCall

AGENTS = ["claude-code", "codex", "gemini-cli", "opencode", "qwen-code"]
NEAR = 0.01
"""By so much lengths of two runs differ, whose folders and ids are not the same."""


@dataclass(frozen=True)
class Both:
    """One play in both ways."""

    by_address: Played
    intercepted: Played


def need(name: str) -> None:
    if name not in os.environ.get(NAMES, "").split():
        pytest.skip(f"{name} is not among the agents to test")
    if reason := why_not():
        pytest.skip(reason)


def intercepted(agent: Agent, folder: Path, canaries: Canaries | None = None) -> Played:
    """Record an agent through an interception."""
    assert agent.vendor is not None
    play, name = agent.plays[agent.vendor.play], agent.name
    installed, python = Path(os.environ[FOLDER]).absolute() / name, Path(os.environ[PYTHON]).absolute()
    return perform(agent, play, installed=installed, folder=folder, canaries=canaries, through=python)


@pytest.fixture(scope="module", params=AGENTS)
def both(request: pytest.FixtureRequest, performed: Performer, tmp_path_factory: pytest.TempPathFactory) -> Both:
    need(request.param)
    agent = agent_named(request.param)
    assert agent.vendor is not None
    by_address = performed(request.param, agent.vendor.play)
    canaries = Canaries.with_words(by_address.canaries[:-1])
    return Both(by_address, intercepted(agent, tmp_path_factory.mktemp(request.param), canaries))


def test_it_asks_its_vendors_host(both: Both) -> None:
    vendor = both.intercepted.agent.vendor
    assert vendor is not None
    assert {request.headers["Host"] for request in both.intercepted.seen} == {vendor.host}


def test_the_calls_are_those_of_the_gateway(both: Both) -> None:
    def told(trace: Trace) -> tuple[object, ...]:
        tools = sorted(event.tool_name for event in trace.events if isinstance(event, ToolCall))
        return tools, [
            (call.link, call.branch, call.aux, call.prefix.of, call.completion_tokens, call.finish_reason)
            for call in trace.calls()
        ]

    assert told(both.intercepted.trace) == told(both.by_address.trace)


def test_lengths_and_prefixes_are_near_those_of_the_gateway(both: Both) -> None:
    def told(trace: Trace) -> list[tuple[int, int]]:
        return [(call.prompt_tokens, call.prefix.tokens) for call in trace.calls()]

    assert told(both.intercepted.trace) == [pytest.approx(one, rel=NEAR) for one in told(both.by_address.trace)]


def test_lengths_and_prefixes_are_those_of_the_server(both: Both) -> None:
    played = both.intercepted

    assert other_lengths(true_calls(played)) == []
    assert [one for one in findings(played.trace, true_calls(played)) if not one.holds] == []


def test_nothing_that_anyone_said_is_in_any_byte(both: Both) -> None:
    assert sent_canaries(both.intercepted)
    assert kept_content(both.intercepted) == []


def test_its_authority_is_gone(both: Both) -> None:
    home = both.intercepted.folder.parent / "home"  # which temporary files are made in, too

    assert list(home.glob("rotoscope-*")) == []


def test_a_line_of_claude_code_that_changes_costs_its_maker_the_prefix(tmp_path: Path) -> None:
    need("claude-code")
    agent = agent_named("claude-code")
    assert agent.vendor is not None
    trace = intercepted(replace(agent, vendor=replace(agent.vendor, environment={})), tmp_path).trace

    assert [call.prefix.of for call in trace.calls()] == ["s0", "s1", "s2"]
    assert [call.prefix.of for call in masked(trace).calls()] == ["s0", 0, 1]
    assert sum(call.cached_tokens or 0 for call in trace.calls()) < NEAR * sum(
        call.prompt_tokens for call in trace.calls()
    )
