"""Where clients look for the address of their server, and how they are led to the gateway instead."""

from __future__ import annotations

from collections.abc import Mapping

from rotoscope.proxy.upstream import Upstream, upstream_as_is, upstream_given
from rotoscope.recorder.variables import PARENT_VARIABLE, PROCESS_VARIABLE, RECORD_VARIABLE, RUN_VARIABLE
from rotoscope.traces.errors import UnusableInput

UPSTREAM_VARIABLE = "OPENAI_BASE_URL"
BASE_URL_VARIABLES = (UPSTREAM_VARIABLE, "OPENAI_API_BASE", "OPENAI_API_BASE_URL", "HOSTED_VLLM_API_BASE")
"""Where clients of OpenAI-compatible servers look for their base URL."""
BARE_VARIABLES = {
    "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
    "GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com",
}
"""Where clients of other servers look for theirs, which has no version, and where they go without it."""
_OF_ANOTHER_RUN = (PARENT_VARIABLE, PROCESS_VARIABLE, RUN_VARIABLE)
PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def chosen_upstream(given: str | None, environment: Mapping[str, str]) -> Upstream:
    """Return the upstream that was given, else the one that clients in this environment would use.

    Raises UnusableInput.
    """
    if given:
        return upstream_given(given)
    if environment.get(UPSTREAM_VARIABLE):
        return upstream_as_is(environment[UPSTREAM_VARIABLE])
    for name in BARE_VARIABLES:
        if environment.get(name):
            return upstream_given(environment[name])
    raise UnusableInput(
        f"no server to record in front of: give --upstream, like 'http://localhost:8000/v1', or set {UPSTREAM_VARIABLE}"
    )


def led_to_gateway(environment: Mapping[str, str], upstream: Upstream, gateway: str) -> dict[str, str]:
    """Return the environment that makes the clients of a command take the gateway for the upstream.

    `gateway` is its origin, with what else stands before the paths of the server. Variables of clients that speak to
    servers of one vendor are changed only where they lead to the upstream: a command may use several vendors at once.
    """
    changed = dict.fromkeys((*BASE_URL_VARIABLES, RECORD_VARIABLE), upstream.base_url(gateway))
    for name, public in BARE_VARIABLES.items():
        leads_to = _as_upstream(environment.get(name) or public)
        if leads_to is not None and leads_to.origin == upstream.origin:
            changed[name] = leads_to.base_url(gateway)
    if any(environment.get(name) for name in PROXY_VARIABLES):
        for name in ("NO_PROXY", "no_proxy"):
            changed[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1")))
    return {name: value for name, value in {**environment, **changed}.items() if name not in _OF_ANOTHER_RUN}


def _as_upstream(url: str) -> Upstream | None:
    """Return what a variable leads to, None where it is no base URL."""
    try:
        return upstream_as_is(url)
    except UnusableInput:
        return None
