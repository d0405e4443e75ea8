"""Codex."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from clients.scripted_server import Script
from coding_agents.agents import Agent, Canaries, Play
from coding_agents.scripts import InTurn

from rotoscope.replayer.simulator.model import Answer, ToolCall

ASK = """codex exec --dangerously-bypass-approvals-and-sandbox -c 'model_providers.here.base_url="'"$OPENAI_BASE_URL"'"'"""
CONFIG = """\
model = "scripted-model"
model_provider = "here"

[model_providers.here]
name = "here"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""


def environment(home: Path, url: str, key: str) -> Mapping[str, str]:
    """Write its configuration; the address of the gateway is given on its command line."""
    folder = home / "codex"
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG)
    return {"CODEX_HOME": str(folder), "OPENAI_API_KEY": key}


def run(command: str) -> ToolCall:
    return ToolCall("exec_command", json.dumps({"cmd": command}, separators=(",", ":")))


def read_and_run(canaries: Canaries) -> Script:
    """Read a file, then run two commands at the same time, then answer."""
    words = canaries.said
    return InTurn(
        [
            Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(run("cat notes.md"),)),
            Answer(tool_calls=(run(f"echo {words.arguments}; sleep 0.05"), run("git log --oneline"))),
            Answer(text=f"At nine, says {words.text}."),
        ]
    )


AGENT = Agent(
    name="codex",
    command="codex",
    program="node_modules/.bin/codex",
    upstream="/v1",
    environment=environment,
    plays={"errand": Play(f'{ASK} "When is the meeting, $IN_PROMPT? See notes.md."', read_and_run)},
)
