"""What every client is given to do, with this run's canaries in it; imported by the agents, so standard library only.

Each agent plays, as far as its framework can: a conversation of several turns with two tools, in which the model once
asks for both at the same time; two conversations at the same time; a stream that is left in the middle; a request that
the server refuses twice.
"""

from __future__ import annotations

import os
import time

MODEL = "scripted-model"
BASE_URL = os.environ.get("ROTOSCOPE_BASE_URL", "")
"""Of the gateway, with `/v1`."""

_canaries = os.environ.get("CLIENT_CANARIES", "").split()
(IN_SYSTEM, IN_USER, IN_TOOL, IN_RESULT, IN_HEADER, IN_URL, IN_KEY) = _canaries or ["canary"] * 7

KEY = f"sk-{IN_KEY}"
HEADERS = {"x-note": IN_HEADER}
QUERY = {"note": IN_URL}
SYSTEM = (
    f"You answer questions about towns and rivers for the tourist office {IN_SYSTEM}. "
    "Use the tools that you have, and say in one sentence what they told you."
)
QUESTION = f"How is the weather in Ghent, and who lives there? My booking is {IN_USER}."
SIDE_QUESTIONS = (f"Where does the Leie end, {IN_USER}?", f"Where does the Scheldt end, {IN_USER}?")
TWIN_QUESTION = f"How far is it from Ghent to Antwerp, {IN_USER}?"
LONG_QUESTION = f"Count without end, for {IN_USER}."
REFUSED_QUESTION = f"Please refuse this twice, please: 17. Then tell me the time, {IN_USER}."
TOOL_S = 0.02
"""How long each tool takes."""
APART_S = float(os.environ.get("CLIENT_APART_S", "0"))
"""How long after the first of two equal conversations the second begins."""


def weather(town: str) -> str:
    """Tell the weather of a town."""
    time.sleep(TOOL_S)
    return f"rain in {town}, nine degrees, wind from the west, says {IN_RESULT}"


def population(town: str) -> str:
    """Tell how many people live in a town."""
    time.sleep(TOOL_S)
    return f"265,000 people live in {town}, says {IN_RESULT}"


TOOLS = {"weather": weather, "population": population}
PARAMETERS = {
    "type": "object",
    "properties": {"town": {"type": "string", "description": f"Name of a town, {IN_TOOL}"}},
    "required": ["town"],
}


def functions() -> list[dict[str, object]]:
    """Return both tools as functions with a JSON schema."""
    return [{"name": name, "description": tool.__doc__, "parameters": PARAMETERS} for name, tool in TOOLS.items()]
