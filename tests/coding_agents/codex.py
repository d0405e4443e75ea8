"""Codex."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from clients.scripted_server import Script
from coding_agents import codex_typed as typed
from coding_agents.agent_server import NAMESPACE_MARK
from coding_agents.agents import Agent, Canaries, Play, Senders, Vendor
from coding_agents.scripts import InTurn, Numbered, last_text, offered

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

ASK = """codex exec --dangerously-bypass-approvals-and-sandbox -c 'model_providers.here.base_url="'"$OPENAI_BASE_URL"'"'"""
ANONYMOUS = 'OPENAI_BASE_URL="$ANONYMOUS/${OPENAI_BASE_URL#http://127.0.0.1:}"; '
"""Who sends a request is taken off."""
LOOKS = 7
"""How many commands say much, one after another."""
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


def tool(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, separators=(",", ":")))


def run(command: str) -> ToolCall:
    return tool("exec_command", cmd=command)


def agents(name: str, **arguments: object) -> ToolCall:
    """Use a tool of those for sub-agents, which have a namespace."""
    return tool(f"multi_agent_v1{NAMESPACE_MARK}{name}", **arguments)


def read_and_run(canaries: Canaries) -> Script:
    """Read a file, then run two commands at the same time, then answer."""
    words = canaries.said
    return InTurn(
        [
            Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(run("cat notes.md"),)),
            Answer(tool_calls=(run(f"echo {words.arguments}; sleep 0.05"), run("git log --oneline"))),
            Answer(text=f"At nine, says {words.text}."),
            Answer(text=f"Still at nine, says {words.text}."),
        ]
    )


def read_much(canaries: Canaries) -> Script:
    """Run commands that say much, one after another, whatever of them was summed up; sum up where that is asked for."""
    looks, summaries = iter(range(LOOKS)), count(1)

    def script(request: ModelRequest) -> Answer:
        if "CONTEXT CHECKPOINT" in last_text(request):
            return Answer(text=f"Part {next(summaries)} of the numbers was seen, and {canaries.said.text} as well.")
        number = next(looks, None)
        return Answer(text="Seen.") if number is None else Answer(tool_calls=(run(f"seq {number} {number + 900}"),))

    return script


def two_by_two(canaries: Canaries) -> Script:
    """Begin two sub-agents, then wait for both, then close them; sub-agents do the same where they may."""
    begin = Answer(text="Two of them.", tool_calls=(agents("spawn_agent", message="Look again."),) * 2)
    look = Answer(tool_calls=(run(f"echo {canaries.said.arguments}"), run("true")))
    end = Answer(text=f"Nothing new, says {canaries.said.text}.")

    def may_begin(request: ModelRequest) -> Answer:
        ids = list(dict.fromkeys(re.findall(r'"agent_id":"([0-9a-f-]+)"', str(request.messages))))
        waits = Answer(tool_calls=tuple(agents("wait_agent", targets=[one], timeout_ms=60_000) for one in ids))
        closes = Answer(tool_calls=tuple(agents("close_agent", target=one) for one in ids))
        return InTurn([begin, waits, closes, end])(request)

    return Numbered(
        lambda request: (may_begin if "multi_agent_v1" in offered(request) else InTurn([look, end]))(request)
    )


def forked(canaries: Canaries) -> Script:
    """Begin two sub-agents with a copy of the conversation, and wait for both."""
    spawn = agents("spawn_agent", message="Look again.", fork_context=True)
    look = Answer(tool_calls=(run(f"echo {canaries.said.arguments}"), run("true")))
    end = Answer(text=f"Nothing new, says {canaries.said.text}.")

    def script(request: ModelRequest) -> Answer:
        ids = list(dict.fromkeys(re.findall(r'"agent_id":"([0-9a-f-]+)"', str(request.messages))))
        waits = Answer(tool_calls=tuple(agents("wait_agent", targets=[one], timeout_ms=60_000) for one in ids))
        return InTurn([Answer(text="Two of them.", tool_calls=(spawn,) * 2), waits if ids else look, end])(request)

    return Numbered(script)


def count_without_end(canaries: Canaries) -> Script:
    """Run a command, then say more than anybody waits for."""
    return InTurn([Answer(tool_calls=(run("true"),)), Answer(text=" ".join(f"number {n}," for n in range(20_000)))])


MEETING = f'{ASK} "When is the meeting, $IN_PROMPT? See notes.md."'
LATEST = (
    r"""find "$CODEX_HOME/sessions" -name '*.jsonl' | sed 's/.*-\(.\{8\}-.\{4\}-.\{4\}-.\{4\}-.\{12\}\).jsonl/\1/'"""
)
"""Tells the id of the only session."""
AGAIN = f'{ASK} resume --last "And now, $IN_PROMPT?"'

AGENT = Agent(
    name="codex",
    command="codex",
    program="node_modules/.bin/codex",
    upstream="/v1",
    environment=environment,
    senders=Senders("thread-id", "x-codex-parent-thread-id"),
    vendor=Vendor("api.openai.com", "errand", {"OPENAI_BASE_URL": "https://api.openai.com/v1"}),
    plays={
        "errand": Play(MEETING, read_and_run),
        "typed": Play(
            f"{typed.TRUST}{ASK.replace('codex exec', 'codex')}", typed.titled(read_and_run), person=typed.asks
        ),
        "continued": Play(f"{MEETING}\n{AGAIN}", read_and_run),
        "compacted-by-itself": Play(
            f'{ASK} -c model_auto_compact_token_limit=20000 "Look at all numbers, $IN_PROMPT."', read_much
        ),
        "refused": Play(
            f'{ASK} "Please refuse this twice, please: 17. Then go on, $IN_PROMPT."',
            read_and_run,
            refusals={500: "server_error", 503: "server_is_overloaded"},
        ),
        "fork": Play(f'{ASK} "Look twice, $IN_PROMPT."', forked),
        "forked-session": Play(f'{MEETING}\n{ASK} fork "$({LATEST})" "And now, $IN_PROMPT?"', read_and_run),
        "interrupted": Play(f'exec {ASK} "Count, $IN_PROMPT."', count_without_end, interrupted_in_call=2, fails=True),
        "tree": Play(f'{ASK} -c agents.max_depth=2 "Look twice, $IN_PROMPT."', two_by_two),
        "anonymous-tree": Play(
            f'{ANONYMOUS}{ASK} -c agents.max_depth=2 "Look twice, $IN_PROMPT."',
            two_by_two,
            senders=Senders("x-taken-off-thread-id", "x-taken-off-codex-parent-thread-id"),
        ),
        "broken": Play(f'{ASK} "When is the meeting, $IN_PROMPT?"', read_and_run, broken_in_calls={1: 0, 3: 30, 5: 4}),
        "review": Play(f"{ASK} review --commit HEAD", read_and_run),
    },
)
