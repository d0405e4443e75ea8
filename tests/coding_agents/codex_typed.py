"""What somebody types into Codex, and what its model says to that beside the work."""

from __future__ import annotations

import json
from collections.abc import Callable

from clients.scripted_server import Script
from coding_agents.agents import Canaries
from coding_agents.scripts import offered
from coding_agents.terminal import Terminal

from rotoscope.replayer.simulator.model import Answer

TRUST = """printf '\\n[projects."%s"]\\ntrust_level = "trusted"\\n' "$PROJECT" >>"$CODEX_HOME/config.toml"\n"""
TITLE = json.dumps({"title": "Find the meeting"})


def titled(script: Callable[[Canaries], Script]) -> Callable[[Canaries], Script]:
    """Return a script that also makes titles, which are asked for without tools."""

    def with_canaries(canaries: Canaries) -> Script:
        work = script(canaries)
        return lambda request: work(request) if offered(request) else Answer(text=TITLE)

    return with_canaries


async def asks(at: Terminal) -> None:
    """Ask two things."""
    await at.sees("Ask Codex to do anything")
    await at.says("When is the meeting?")
    await at.sees("At nine,")
    await at.says("And now?")
    await at.sees("Still at nine,")
    await at.says("/quit")
