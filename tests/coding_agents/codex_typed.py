"""What somebody types into Codex, and what its model says to that beside the work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from clients.scripted_server import Script
from coding_agents.agents import Canaries
from coding_agents.scripts import offered
from coding_agents.terminal import ENTER, Terminal

from rotoscope.replayer.simulator.model import Answer

TRUST = """printf '\\n[projects."%s"]\\ntrust_level = "trusted"\\n' "$PROJECT" >>"$CODEX_HOME/config.toml"\n"""
PATIENCE_S = 5.0
"""Who types as fast as this one is taken for somebody who pastes, and Enter for a new line; nothing else depends on it."""
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
    await _asks(at, "Say when the meeting is.", "At nine,")
    await _asks(at, "Say it again.", "Still at nine,")
    await at.says("/quit")


async def _asks(at: Terminal, words: str, answer: str) -> None:
    """Say something, and press Enter again where the first one was taken for a part of it."""
    await at.says(words)
    while True:
        try:
            return await asyncio.wait_for(at.sees(answer), PATIENCE_S)
        except TimeoutError:
            at.presses(ENTER)
