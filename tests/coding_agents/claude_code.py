"""Claude Code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from clients.scripted_server import Script
from coding_agents import claude_code_typed as typed
from coding_agents.agents import Agent, Canaries, Play, Senders, Vendor
from coding_agents.scripts import InTurn, Numbered, last_text, offered

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

ASK = "claude -p --dangerously-skip-permissions --output-format json"
LOOKS = 7
"""How many commands say much, one after another."""


def environment(home: Path, url: str, key: str) -> Mapping[str, str]:
    """Point it at a server; `IS_SANDBOX` lets it work without questions for the superuser too."""
    typed.answer_first_questions(home, key)
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "IS_SANDBOX": "1"}


def tool(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments, separators=(",", ":")))


def bash(command: str) -> ToolCall:
    return tool("Bash", command=command, description="Look")


def agent(**options: object) -> ToolCall:
    """Begin a sub-agent; siblings get the same words."""
    return tool("Agent", description="Look again", prompt="Look again, and say what you see.", **options)


def read_and_run(canaries: Canaries) -> Script:
    """Read a file, then run two commands at the same time, then answer; sum up where that is asked for."""
    words = canaries.said
    work = InTurn(
        [
            Answer(text="I look.", reasoning=f"{words.thinking} first.", tool_calls=(bash("cat notes.md"),)),
            Answer(tool_calls=(bash(f"echo {words.arguments}; sleep 0.05"), bash("git log --oneline"))),
            Answer(text=f"At nine, says {words.text}."),
            Answer(text=f"Still at nine, says {words.text}."),
        ]
    )
    summary = f"<analysis>{words.thinking}</analysis>\n<summary>A meeting at nine, and {words.text}.</summary>"
    return lambda request: Answer(text=summary) if "<summary>" in last_text(request) else work(request)


def read_much(canaries: Canaries) -> Script:
    """Run commands that say much, one after another, whatever of them was summed up; sum up where that is asked for."""
    looks, summaries = iter(range(LOOKS)), count(1)
    words = canaries.said

    def script(request: ModelRequest) -> Answer:
        if "<summary>" in last_text(request):
            told = f"Part {next(summaries)} of the numbers, and {words.text}."
            return Answer(text=f"<analysis>{words.thinking}</analysis>\n<summary>{told}</summary>")
        number = next(looks, None)
        return Answer(text="Seen.") if number is None else Answer(tool_calls=(bash(f"seq {number} {number + 900}"),))

    return script


def two_by_two(canaries: Canaries) -> Script:
    """Begin two sub-agents, then run two commands; sub-agents do the same, as long as they are offered sub-agents."""
    begin = Answer(text="Two of them.", tool_calls=(agent(run_in_background=False),) * 2)
    look = Answer(tool_calls=(bash(f"echo {canaries.said.arguments}"), bash("true")))
    end = Answer(text=f"Nothing new, says {canaries.said.text}.")
    may_begin, may_not = InTurn([begin, look, end]), InTurn([look, end])
    return Numbered(lambda request: (may_begin if "Agent" in offered(request) else may_not)(request))


def in_background(canaries: Canaries) -> Script:
    """Begin two sub-agents and go on; what they tell comes later, as messages of the user."""
    begin = Answer(text="Two of them.", tool_calls=(agent(),) * 2)
    look = Answer(tool_calls=(bash(f"sleep 0.3; echo {canaries.said.arguments}"), bash("true")))
    end = Answer(text=f"Nothing new, says {canaries.said.text}.")
    main, sub = InTurn([begin, look, end]), InTurn([look, end])
    return Numbered(lambda request: (main if "ListAgents" in offered(request) else sub)(request))


def forked(canaries: Canaries) -> Script:
    """Begin two sub-agents with a copy of the conversation, and go on."""
    begin = Answer(text="Two of them.", tool_calls=(agent(subagent_type="fork"),) * 2)
    look = Answer(tool_calls=(bash(f"sleep 0.3; echo {canaries.said.arguments}"), bash("true")))
    return Numbered(InTurn([begin, look, Answer(text=f"Nothing new, says {canaries.said.text}.")]))


def count_without_end(canaries: Canaries) -> Script:
    """Run a command, then say more than anybody waits for."""
    return InTurn([Answer(tool_calls=(bash("true"),)), Answer(text=" ".join(f"number {n}," for n in range(20_000)))])


MEETING = f'{ASK} "When is the meeting, $IN_PROMPT? See notes.md."'
AGAIN = f'{ASK} --continue "And now, $IN_PROMPT?"'
TYPED = "claude --dangerously-skip-permissions"
WITHOUT_LIMITS = {"CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH": "5", "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS": "64"}

WITHOUT_BILLING = {"CLAUDE_CODE_ATTRIBUTION_HEADER": "0"}
"""Its instructions begin without a line that changes with each request to its maker's own server."""

AGENT = Agent(
    name="claude-code",
    command="claude",
    program="node_modules/@anthropic-ai/claude-code-*/claude",
    upstream="",
    environment=environment,
    senders=Senders("x-claude-code-agent-id", "x-claude-code-parent-agent-id", is_main_without_id=True),
    vendor=Vendor("api.anthropic.com", "errand", WITHOUT_BILLING, unset=["ANTHROPIC_BASE_URL"]),
    plays={
        "errand": Play(MEETING, read_and_run),
        "continued": Play(f"{MEETING}\n{AGAIN}\n{ASK} --continue /context", read_and_run),
        "compacted": Play(f"{MEETING}\n{ASK} --continue /compact\n{AGAIN}", read_and_run),
        "compacted-by-itself": Play(
            f'{ASK} "Look at all numbers, $IN_PROMPT."',
            read_much,
            environment={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "30"},
        ),
        "refused": Play(
            f'{ASK} "Please refuse this twice, please: 17. Then go on, $IN_PROMPT."',
            read_and_run,
            refusals={429: "rate_limit_error", 529: "overloaded_error"},
        ),
        "interrupted": Play(f'exec {ASK} "Count, $IN_PROMPT."', count_without_end, interrupted_in_call=2),
        "background": Play(f'{ASK} "Look twice, $IN_PROMPT."', in_background),
        "fork": Play(f'{ASK} "Look twice, $IN_PROMPT."', forked, environment={"CLAUDE_CODE_FORK_SUBAGENT": "1"}),
        "tree": Play(f'{ASK} "Look twice, $IN_PROMPT."', two_by_two, environment=WITHOUT_LIMITS),
        "anonymous-tree": Play(
            f'ANTHROPIC_BASE_URL="$ANONYMOUS/${{ANTHROPIC_BASE_URL##*:}}" {ASK} "Look twice, $IN_PROMPT."',
            two_by_two,
            environment=WITHOUT_LIMITS,
            senders=Senders("x-taken-off-agent-id", "x-taken-off-parent-agent-id", is_main_without_id=True),
        ),
        "typed": Play(TYPED, typed.script, person=typed.asks),
        "typed-compacted": Play(TYPED, typed.script, person=typed.sums_up),
        "typed-continued": Play(
            f"{TYPED}\n{TYPED} --continue\n{TYPED} --resume", typed.script, person=typed.comes_back
        ),
        "typed-refused": Play("claude --permission-mode default", typed.script, person=typed.refuses),
        "typed-suggested": Play(
            TYPED,
            typed.script,
            person=typed.is_made_suggestions,
            environment={"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "1"},
        ),
        "typed-hinted": Play(
            TYPED,
            typed.script,
            person=typed.is_made_suggestions,
            environment={"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "1", "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"},
        ),
    },
)
