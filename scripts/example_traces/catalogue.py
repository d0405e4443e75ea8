"""The example traces that there are."""

from __future__ import annotations

from functools import partial

from scripts.example_traces.hands import HANDS
from scripts.example_traces.plays import GO_ON, TASK, as_a_tree, in_a_small_window, with_sub_agents
from scripts.example_traces.recording import Example

EXPLAIN = "Some tests of this repository fail. Find out why with the help of others, and change nothing."


def sub_agents(agent: str, shows: str) -> Example:
    """Let an agent repair a repository with two sub-agents."""
    hands = HANDS[agent]
    return Example(agent, "sub-agents", shows, f'{hands.ask} "{TASK}"', partial(with_sub_agents, hands))


def compaction(agent: str, shows: str) -> Example:
    """Let an agent repair a repository in a small window, and ask again in a new process."""
    hands = HANDS[agent]
    lines = f'{hands.small_lines}\n{hands.ask} "{TASK}"\n{hands.go_on} "{GO_ON}"'
    return Example(agent, "compaction", shows, lines, partial(in_a_small_window, hands), variables=hands.small)


def tree(agent: str, shows: str) -> Example:
    """Let sub-agents begin sub-agents."""
    hands = HANDS[agent]
    return Example(
        agent,
        "tree",
        shows,
        f'{hands.ask} "{EXPLAIN}"',
        partial(as_a_tree, hands),
        variables={"CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH": "3"},
        repairs=False,
    )


EXAMPLES = (
    sub_agents("claude-code", "two sub-agents at once, joined; tools of its own for files and shell"),
    compaction("claude-code", "two summaries, each asked for behind the whole history; continued in a second process"),
    tree("claude-code", "14 sub-agents, three deep; the deepest differ in their billing line, and so share little"),
    sub_agents("codex", "two threads, for which it waits by a tool; everything else by the shell"),
    compaction("codex", "a summary in the conversation itself; resumed in a second process"),
    sub_agents("opencode", "a title beside the work, then two sub-agents at once, joined"),
    compaction("opencode", "a title; a summary by a call with a prompt of its own; continued in a second process"),
    sub_agents("gemini-cli", "two sub-agents at once, joined, which end by a tool"),
    compaction("gemini-cli", "resumed in a second process, which first has the history summed up, and that checked"),
    sub_agents("qwen-code", "two sub-agents one after another; the largest instructions of the five"),
    compaction("qwen-code", "two summaries, by calls with a prompt of their own; continued in a second process"),
)
