"""Fixtures of the tests with real coding agents (`make test-coding-agents`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from clients.stage import result
from coding_agents.agents import agent_named
from coding_agents.playing import Played, perform

FOLDER = "ROTOSCOPE_CODING_AGENTS"
"""The folder that holds the agents, each in a folder of its name; set by `make test-coding-agents`."""
NAMES = "ROTOSCOPE_CODING_AGENT_NAMES"
"""Which of them to test."""

if FOLDER in os.environ:
    # Agents are interrupted, which they would ignore where whoever runs the tests in the background does.
    signal.signal(signal.SIGINT, signal.default_int_handler)

Performer = Callable[[str, str], Played]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test each play of each agent that is named."""
    if "recorded" in metafunc.fixturenames:
        names = os.environ.get(NAMES, "").split()
        plays = [(name, play) for name in names for play in agent_named(name).plays]
        metafunc.parametrize("recorded", plays, indirect=True, scope="session", ids="-".join)


@pytest.fixture(scope="session")
def performed(tmp_path_factory: pytest.TempPathFactory) -> Performer:
    """Let an agent do a play and return what was recorded of it; each is done once."""

    @cache
    def perform_once(name: str, play: str) -> Played | BaseException:
        agent, folder = agent_named(name), tmp_path_factory.mktemp(f"{name}-{play}")
        try:
            return perform(
                agent, agent.plays[play], installed=Path(os.environ[FOLDER]).absolute() / name, folder=folder
            )
        except (AssertionError, TimeoutError, OSError) as error:
            return error

    def perform_named(name: str, play: str) -> Played:
        if name not in os.environ.get(NAMES, "").split():
            pytest.skip(f"{name} is not among the agents to test")
        return result(perform_once(name, play))

    return perform_named


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest, performed: Performer) -> Played:
    """The recording of one play."""
    return performed(*request.param)
