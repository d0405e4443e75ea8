"""opencode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coding_agents.agents import Agent, Play, Senders, Vendor
from coding_agents.tasks import ASK_TWO, COUNT, GO_ON, LEVELS, MEETING, READ_LONG, REFUSED, Tools, script, tool, tree

ASK = "opencode run"
ANONYMOUS = 'OPENAI_BASE_URL="$ANONYMOUS/${OPENAI_BASE_URL#http://127.0.0.1:}" '
"""Who sends a request is taken off."""
CONFIG = {
    "model": "here/scripted-model",
    "permission": "allow",
    "subagent_depth": 3,
    "agent": {"looker": {"mode": "subagent", "description": "Looks", "permission": {"*": "allow", "task": "allow"}}},
    "share": "disabled",
    "autoupdate": False,
    "provider": {
        "here": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"scripted-model": {"limit": {"context": 200_000, "output": 8_000}}},
        }
    },
}

SMALL = {"provider": {"here": {"models": {"scripted-model": {"limit": {"context": 18_000, "output": 2_000}}}}}}
"""A window that the lists do not fit into; what a variable holds is added to the file."""

BY_ADDRESS = {"provider": {"openai": {"options": {"baseURL": "{env:OPENAI_BASE_URL}"}}}}
"""OpenAI's own provider, which it has built in, at another address."""


def environment(home: Path, url: str, key: str) -> Mapping[str, str]:
    """Write its configuration, which takes the address of the gateway from a variable."""
    folder = home / "config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(json.dumps(CONFIG))
    return {"OPENAI_API_KEY": key, "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


TOOLS = Tools(
    run=lambda command: tool("bash", command=command),
    begin=lambda prompt: tool("task", description="Look again", prompt=prompt, subagent_type="looker"),
)

AGENT = Agent(
    name="opencode",
    command="opencode",
    program="node_modules/opencode-*64/bin/opencode",
    upstream="/v1",
    environment=environment,
    senders=Senders("x-session-id", "x-parent-session-id"),
    vendor=Vendor("api.openai.com", "built-in", unset=["OPENCODE_CONFIG_CONTENT"]),
    plays={
        "errand": Play(f'{ASK} "{MEETING}, $IN_PROMPT? See notes.md."', script(TOOLS)),
        "built-in": Play(
            f'{ASK} --model openai/gpt-5.2 "{MEETING}, $IN_PROMPT? See notes.md."',
            script(TOOLS),
            environment={"OPENCODE_CONFIG_CONTENT": json.dumps(BY_ADDRESS)},
        ),
        "agents": Play(f'{ASK} "{ASK_TWO}, $IN_PROMPT."', script(TOOLS)),
        "tree": Play(f'{ASK} "{LEVELS.format(2)}, $IN_PROMPT."', tree(TOOLS, levels=2)),
        "anonymous-tree": Play(
            f'{ANONYMOUS}{ASK} "{LEVELS.format(3)}, $IN_PROMPT."',
            tree(TOOLS, levels=3),
            senders=Senders("x-taken-off-session-id", "x-taken-off-parent-session-id"),
        ),
        "continued": Play(f'{ASK} "{MEETING}, $IN_PROMPT?" && {ASK} --continue "{GO_ON}."', script(TOOLS)),
        "compacted": Play(
            f'{ASK} "{READ_LONG}, $IN_PROMPT." && {ASK} --continue "{GO_ON}."',
            script(TOOLS),
            environment={"OPENCODE_CONFIG_CONTENT": json.dumps(SMALL)},
        ),
        "refused": Play(f'{ASK} "{REFUSED}, $IN_PROMPT."', script(TOOLS)),
        "interrupted": Play(f'exec {ASK} "{COUNT}, $IN_PROMPT."', script(TOOLS), interrupted_in_call=2, fails=True),
    },
)
