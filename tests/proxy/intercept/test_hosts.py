"""Which hosts are opened."""

from __future__ import annotations

import re

import pytest

from rotoscope.proxy.intercept.hosts import INFERENCE_HOSTS, Hosts, chosen_hosts
from rotoscope.traces.errors import UnusableInput


@pytest.mark.parametrize(
    ("host", "port", "is_opened"),
    [
        ("api.openai.com", 443, True),
        ("API.OpenAI.com", 443, True),
        ("api.openai.com", 8443, True),
        ("eu.api.openai.com", 443, True),
        ("auth.openai.com", 443, False),
        ("api.openai.com.example.com", 443, False),
        ("notapi.openai.com", 443, False),
        ("apixopenai.com", 443, False),
        ("europe-west1-aiplatform.googleapis.com", 443, True),
        ("storage.googleapis.com", 443, False),
        ("pypi.org", 443, False),
    ],
)
def test_the_known_inference_hosts_are_opened_and_no_other(host: str, port: int, is_opened: bool) -> None:
    assert Hosts().opens(host, port) == is_opened


@pytest.mark.parametrize(
    ("given", "host", "port", "is_opened"),
    [
        ("llm.example.com", "llm.example.com", 443, True),
        ("llm.example.com", "other.example.com", 443, False),
        ("*.example.com", "llm.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("localhost:8443", "localhost", 8443, True),
        ("localhost:8443", "localhost", 8444, False),
        ("localhost:8443", "localhost", 84430, False),
        ("10.0.0.1:8000", "10.0.0.1", 8000, True),
        ("10.0.0.1:8000", "10x0.0.1", 8000, False),
        ("[::1]:8443", "::1", 8443, True),
        ("bücher.example:8443", "xn--bcher-kva.example", 8443, True),
        ("bücher.example:8443", "bücher.example", 8443, True),
        ("*.bücher.example", "llm.xn--bcher-kva.example", 443, True),
    ],
)
def test_a_host_that_was_given_is_opened_too(given: str, host: str, port: int, is_opened: bool) -> None:
    assert chosen_hosts([given]).opens(host, port) == is_opened


def test_those_that_were_given_do_not_replace_the_known_ones() -> None:
    assert chosen_hosts(["llm.example.com"]).patterns == (*INFERENCE_HOSTS, "llm.example.com")


@pytest.mark.parametrize(
    "given",
    [
        *["", "https://llm.example.com", "llm.example.com/v1", "a*.example.com", "host:port", "host:65536", "host:0"],
        *["--intercept-mode", "..", "*"],
    ],
)
def test_what_is_no_host_is_refused(given: str) -> None:
    with pytest.raises(UnusableInput, match="is no host to open: give one like"):
        chosen_hosts([given])


@pytest.mark.parametrize("host", ["api.openai.com", "auth.openai.com", "eu.api.openai.com", "example.com"])
def test_mitmproxy_is_given_the_same_hosts(host: str) -> None:
    is_allowed = any(re.search(regex, f"{host}:443", re.IGNORECASE) for regex in Hosts().regexes)

    assert is_allowed == Hosts().opens(host, 443)


@pytest.mark.parametrize(
    ("patterns", "domains"),
    [
        (("a.example.com", "*.example.com:8443"), ["a.example.com", "example.com"]),
        (("*-llm.Example.com",), ["example.com"]),
        (("127.0.0.1:8443", "[::1]:8443", "localhost"), ["127.0.0.1", "localhost"]),
        (("a.example.com", "*com"), []),
    ],
)
def test_all_hosts_are_in_their_domains(patterns: tuple[str, ...], domains: list[str]) -> None:
    assert Hosts(patterns).domains == domains
