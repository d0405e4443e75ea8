"""How the model of each coding agent asks for what it wants done, and how that agent is started."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coding_agents.agent_server import NAMESPACE_MARK
from coding_agents.claude_code import ASK as CLAUDE
from coding_agents.codex import ASK as CODEX
from coding_agents.gemini_cli import ASK as GEMINI
from coding_agents.opencode import ASK as OPENCODE
from coding_agents.qwen_code import ASK as QWEN

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

SMALL_OPENCODE = {"provider": {"here": {"models": {"scripted-model": {"limit": {"context": 18_000, "output": 4_000}}}}}}
Step = Answer | Callable[[ModelRequest], Answer]


@dataclass(frozen=True)
class Hands:
    """What an agent can do. Paths are absolute."""

    ask: str
    """Starts it with a task, which is put behind."""
    go_on: str
    """Starts it with the conversation before."""
    run: Callable[[str], ToolCall]
    read: Callable[[str], ToolCall]
    edit: Callable[[str, str, str], ToolCall]
    """Replace the one text in a file by the other."""
    begin: Callable[[str], ToolCall]
    """Begin a sub-agent with a task."""
    join: tuple[Step, ...] = ()
    """What its model says until it knows what sub-agents told."""
    end: Callable[[str], Answer] = Answer
    """What a sub-agent says at its end."""
    sums_up: str | None = None
    """Words of its last message when it wants a summary; None where it offers no tools then."""
    small: Mapping[str, str] = field(default_factory=dict)
    """Variables that leave it a small window."""
    small_lines: str = ""
    """Lines of shell that do."""


def tool(name: str, **arguments: object) -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(name, json.dumps(arguments, separators=(",", ":")))


def patch(path: str, old: str, new: str) -> str:
    """Return a command by which Codex changes a file."""
    lines = [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
    body = "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"])
    return f"apply_patch <<'END'\n{body}\nEND"


def wait_for_threads(request: ModelRequest) -> Answer:
    """Wait for all threads that were spawned."""
    return Answer(tool_calls=tuple(threads("wait_agent", targets=[one], timeout_ms=60_000) for one in _ids(request)))


def close_threads(request: ModelRequest) -> Answer:
    """Close all threads that were spawned."""
    return Answer(tool_calls=tuple(threads("close_agent", target=one) for one in _ids(request)))


def threads(name: str, **arguments: object) -> ToolCall:
    """Use one of Codex's tools for sub-agents, which have a namespace."""
    return tool(f"multi_agent_v1{NAMESPACE_MARK}{name}", **arguments)


def _ids(request: ModelRequest) -> list[str]:
    return list(dict.fromkeys(re.findall(r'"agent_id":"([0-9a-f-]+)"', str(request.messages))))


HANDS = {
    "claude-code": Hands(
        ask=CLAUDE,
        go_on=f"{CLAUDE} --continue",
        run=lambda command: tool("Bash", command=command, description="Run a command"),
        read=lambda path: tool("Read", file_path=path),
        edit=lambda path, old, new: tool("Edit", file_path=path, old_string=old, new_string=new),
        begin=lambda task: tool("Agent", description="Look into failures", prompt=task, run_in_background=False),
        sums_up="<summary>",
        small={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "22"},
    ),
    "codex": Hands(
        ask=CODEX,
        go_on=f"{CODEX} resume --last",
        run=lambda command: tool("exec_command", cmd=command),
        read=lambda path: tool("exec_command", cmd=f"cat {path}"),
        edit=lambda path, old, new: tool("exec_command", cmd=patch(path, old, new)),
        begin=lambda task: threads("spawn_agent", message=task),
        join=(wait_for_threads, close_threads),
        sums_up="CONTEXT CHECKPOINT",
        small_lines="""sed -i '1i model_auto_compact_token_limit = 12000' "$CODEX_HOME/config.toml\"""",
    ),
    "opencode": Hands(
        ask=OPENCODE,
        go_on=f"{OPENCODE} --continue",
        run=lambda command: tool("bash", command=command),
        read=lambda path: tool("read", filePath=path),
        edit=lambda path, old, new: tool("edit", filePath=path, oldString=old, newString=new),
        begin=lambda task: tool("task", description="Look into failures", prompt=task, subagent_type="general"),
        small={"OPENCODE_CONFIG_CONTENT": json.dumps(SMALL_OPENCODE)},
    ),
    "gemini-cli": Hands(
        ask=f"{GEMINI} --prompt",
        go_on=f"{GEMINI} --resume latest --prompt",
        run=lambda command: tool("run_shell_command", command=command),
        read=lambda path: tool("read_file", file_path=path),
        edit=lambda path, old, new: tool(
            "replace", file_path=path, instruction="Repair it.", old_string=old, new_string=new
        ),
        begin=lambda task: tool("invoke_agent", agent_name="generalist", prompt=task),
        end=lambda text: Answer(tool_calls=(tool("complete_task", result={"response": text}),)),
        small_lines="""sed -i 's/^{/{"model": {"compressionThreshold": 0.012}, /' "$HOME/.gemini/settings.json\"""",
    ),
    "qwen-code": Hands(
        ask=QWEN,
        go_on=f"{QWEN} --continue",
        run=lambda command: tool("run_shell_command", command=command),
        read=lambda path: tool("read_file", file_path=path),
        edit=lambda path, old, new: tool("edit", file_path=path, old_string=old, new_string=new),
        begin=lambda task: tool(
            "agent", description="Look into failures", prompt=task, subagent_type="general-purpose"
        ),
        small_lines="""mkdir .qwen
echo '{"model": {"generationConfig": {"contextWindowSize": 32000}}}' >.qwen/settings.json""",
    ),
}
