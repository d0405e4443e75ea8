"""Claude Code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from clients.scripted_server import Script
from coding_agents.agents import Agent, Canaries, Play
from coding_agents.scripts import InTurn

from rotoscope.replayer.simulator.model import Answer, ToolCall

ASK = "claude -p --dangerously-skip-permissions --output-format json"


def environment(home: Path, url: str, key: str) -> Mapping[str, str]:
    """Point it at a server; `IS_SANDBOX` lets it work without questions for the superuser too."""
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "IS_SANDBOX": "1"}


def bash(command: str) -> ToolCall:
    return ToolCall("Bash", json.dumps({"command": command, "description": "Look"}, separators=(",", ":")))


def read_and_run(canaries: Canaries) -> Script:
    """Read a file, then run two commands at the same time, then answer."""
    words = canaries.said
    return InTurn(
        [
            Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(bash("cat notes.md"),)),
            Answer(tool_calls=(bash(f"echo {words.arguments}; sleep 0.05"), bash("git log --oneline"))),
            Answer(text=f"At nine, says {words.text}."),
        ]
    )


AGENT = Agent(
    name="claude-code",
    command="claude",
    program="node_modules/@anthropic-ai/claude-code-*/claude",
    upstream="",
    environment=environment,
    plays={"errand": Play(f'{ASK} "When is the meeting, $IN_PROMPT? See notes.md."', read_and_run)},
)
