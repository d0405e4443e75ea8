"""Gemini CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coding_agents.agents import Agent, Play, ToolIds, Vendor
from coding_agents.anonymous import FIRST_TOOL_ID
from coding_agents.tasks import (
    ASK_FOUR,
    ASK_TWINS,
    ASK_TWO,
    COUNT,
    GO_ON,
    MEETING,
    READ_LONG,
    READ_OFTEN,
    REFUSED,
    Tools,
    checked,
    numbered,
    script,
    tool,
)

from rotoscope.replayer.simulator.model import Answer

ALIKE = 'GOOGLE_GEMINI_BASE_URL="$ANONYMOUS/alike/${GOOGLE_GEMINI_BASE_URL#http://127.0.0.1:}" '
"""The ids of tool calls are made alike."""
ASK = "gemini --yolo --skip-trust --model scripted-model"
SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
}

CHECKS = """\
sed -i 's/^{/{"model": {"skipNextSpeakerCheck": false, "summarizeToolOutput": {"run_shell_command": {"tokenBudget": 20}}}, /' \
    "$HOME/.gemini/settings.json"
"""
"""Whether the model should go on is asked behind each of its answers, and what commands say is summed up."""
SMALL = """sed -i 's/^{/{"model": {"compressionThreshold": 0.02}, /' "$HOME/.gemini/settings.json"\n"""
"""Of a window of about a million tokens."""


def environment(home: Path, url: str, key: str) -> Mapping[str, str]:
    """Write its settings; its address is the server's until the gateway takes its place."""
    folder = home / ".gemini"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": key}


TOOLS = Tools(
    run=lambda command: tool("run_shell_command", command=command),
    begin=lambda prompt: tool("invoke_agent", agent_name="generalist", prompt=prompt),
    end=lambda text: Answer(tool_calls=(tool("complete_task", result={"response": text}),)),
)

AGENT = Agent(
    name="gemini-cli",
    command="gemini",
    program="node_modules/.bin/gemini",
    upstream="",
    environment=environment,
    vendor=Vendor("generativelanguage.googleapis.com", "errand", unset=["GOOGLE_GEMINI_BASE_URL"]),
    plays={
        "errand": Play(f'{ASK} --prompt "{MEETING}, $IN_PROMPT? See notes.md."', script(TOOLS)),
        "agents": Play(f'{ASK} --prompt "{ASK_TWO}, $IN_PROMPT."', script(TOOLS)),
        "twins": Play(f'{ASK} --prompt "{ASK_TWINS}, $IN_PROMPT."', numbered(script(TOOLS))),
        "anonymous-four": Play(
            f'{ALIKE}{ASK} --prompt "{ASK_FOUR}, $IN_PROMPT."', numbered(script(TOOLS)), senders=ToolIds(FIRST_TOOL_ID)
        ),
        "checked": Play(
            f'{CHECKS}{ASK} --prompt "{READ_OFTEN}, $IN_PROMPT." && {ASK} --resume latest --prompt "{GO_ON}."',
            numbered(checked(script(TOOLS))),
        ),
        "continued": Play(
            f'{ASK} --prompt "{MEETING}, $IN_PROMPT?" && {ASK} --resume latest --prompt "{GO_ON}."', script(TOOLS)
        ),
        "compacted": Play(
            f'{SMALL}{ASK} --prompt "{READ_LONG}, $IN_PROMPT." && {ASK} --resume latest --prompt "{GO_ON}."',
            script(TOOLS, lists=4),
        ),
        "refused": Play(f'{ASK} --prompt "{REFUSED}, $IN_PROMPT."', script(TOOLS)),
        "interrupted": Play(
            f'exec {ASK} --prompt "{COUNT}, $IN_PROMPT."',
            script(TOOLS),
            interrupted_in_call=1,
            environment={"GEMINI_CLI_NO_RELAUNCH": "true"},
        ),
    },
)
