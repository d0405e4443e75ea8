"""`rotoscope record`: what it refuses before anything runs."""

from __future__ import annotations

import importlib.util

import pytest
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.traces import UnusableInput

HAS_MITMPROXY = importlib.util.find_spec("mitmproxy") is not None


def refusal(*arguments: str) -> str:
    """Return why a recording of a command is refused."""
    result = CliRunner().invoke(app, ["record", *arguments, "--", "true"], env={"OPENAI_BASE_URL": ""})
    assert isinstance(result.exception, UnusableInput), result.exception
    return str(result.exception)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--upstream", "http://localhost:1/v1"], "--upstream"),
        (["--measure"], "--measure"),
        (["--each", "-"], "--each"),
        (["--upstream", "http://localhost:1/v1", "--measure"], "--upstream and --measure"),
    ],
)
def test_what_is_for_a_gateway_does_not_go_with_interception(given: list[str], named: str) -> None:
    assert refusal("--intercept", *given) == f"{named} cannot go with --intercept: leave one of them out"


@pytest.mark.parametrize("given", [["--intercept-host", "llm.example.com"], ["--intercept-mode", "local"]])
def test_what_is_for_an_interception_does_not_go_without_it(given: list[str]) -> None:
    assert "are for --intercept" in refusal("--upstream", "http://localhost:1/v1", *given)


@pytest.mark.skipif(HAS_MITMPROXY, reason="mitmproxy is in this environment")
def test_interception_needs_mitmproxy_in_an_environment_of_its_own() -> None:
    said = refusal("--intercept")

    assert said.startswith("--intercept needs mitmproxy, which is not in this environment: install '.[intercept]'")
