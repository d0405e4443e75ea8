"""qwen-code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coding_agents.agents import Agent, Play, ToolIds, Vendor
from coding_agents.anonymous import FIRST_TOOL_ID
from coding_agents.tasks import (
    ASK_TWINS,
    ASK_TWO,
    COUNT,
    GO_ON,
    MEETING,
    READ_LONG,
    REFUSED,
    Tools,
    checked,
    numbered,
    script,
    tool,
)

ASK = "qwen --auth-type openai --yolo"
ALIKE = 'OPENAI_BASE_URL="$ANONYMOUS/alike/${OPENAI_BASE_URL#http://127.0.0.1:}" '
"""The ids of tool calls are made alike."""
SETTINGS = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}

CHECKS = """mkdir .qwen && echo '{"model": {"skipNextSpeakerCheck": false}}' >.qwen/settings.json && """
"""Whether the model should go on is asked behind each of its answers."""
SMALL = (
    """mkdir .qwen && echo '{"model": {"generationConfig": {"contextWindowSize": 50000}}}' >.qwen/settings.json && """
)
"""A window that the lists do not fit into."""


def environment(home: Path, url: str, key: str) -> Mapping[str, str]:
    """Write its settings; it reads the address of the gateway from OPENAI_BASE_URL."""
    folder = home / ".qwen"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    return {"OPENAI_API_KEY": key, "OPENAI_MODEL": "scripted-model"}


TOOLS = Tools(
    run=lambda command: tool("run_shell_command", command=command),
    begin=lambda prompt: tool("agent", description="Look again", prompt=prompt, subagent_type="general-purpose"),
)

AGENT = Agent(
    name="qwen-code",
    command="qwen",
    program="node_modules/.bin/qwen",
    upstream="/v1",
    environment=environment,
    vendor=Vendor("dashscope.aliyuncs.com", "errand"),
    plays={
        "errand": Play(f'{ASK} "{MEETING}, $IN_PROMPT? See notes.md."', script(TOOLS)),
        "agents": Play(f'{ASK} "{ASK_TWO}, $IN_PROMPT."', script(TOOLS)),
        "anonymous-twins": Play(
            f'{ALIKE}{ASK} "{ASK_TWINS}, $IN_PROMPT."', numbered(script(TOOLS)), senders=ToolIds(FIRST_TOOL_ID)
        ),
        "checked": Play(
            f'{CHECKS}{ASK} "{MEETING}, $IN_PROMPT?" && {ASK} --continue "{GO_ON}."',
            numbered(checked(script(TOOLS))),
        ),
        "continued": Play(f'{ASK} "{MEETING}, $IN_PROMPT?" && {ASK} --continue "{GO_ON}."', script(TOOLS)),
        "compacted": Play(
            f'{SMALL}{ASK} "{READ_LONG}, $IN_PROMPT." && {ASK} --continue "{GO_ON}."',
            script(TOOLS),
        ),
        "refused": Play(f'{ASK} "{REFUSED}, $IN_PROMPT."', script(TOOLS)),
        "interrupted": Play(
            f'exec {ASK} "{COUNT}, $IN_PROMPT."',
            script(TOOLS),
            interrupted_in_call=1,
            environment={"QWEN_CODE_NO_RELAUNCH": "true"},
            fails=True,
        ),
    },
)
