"""Random scripts for the labelled corpus (`labelled_runs.py`): agents that fork, go back, hang up and say the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from labelled_runs import Agent, Script

_MOST_AGENTS = 6
_SAYINGS = ("I see that it is so.", "I do it at once.")


def random_script(seed: int) -> Script:
    """Write a script; in half of them all agents say one of two things."""
    random = Random(seed)
    writer = _Writer(random, Script(), is_alike=random.random() < 0.5)
    writer.add(writer.script.agent("main"), 0.0)
    for _ in range(random.randint(3, 14)):
        writer.act()
    return writer.script


@dataclass(slots=True)
class _Writer:
    random: Random
    script: Script
    is_alike: bool
    agents: list[Agent] = field(default_factory=list)
    free_s: dict[str, float] = field(default_factory=dict)
    """From when on each agent can act."""
    now_s: float = 0.0

    def add(self, agent: Agent, free_s: float) -> Agent:
        self.agents.append(agent)
        self.free_s[agent.name] = free_s
        return agent

    def act(self) -> None:
        """Let one agent do something and make a call."""
        self.now_s += self.random.choice([0.0, 0.3, 1.0])
        agent = self.random.choice(self.agents)
        what = self.random.random()
        if what < 0.15 and len(self.agents) < _MOST_AGENTS:
            agent = self._begin(agent)
        elif what < 0.25 and len(agent.messages) > 4:
            agent.cut(self.random.randint(2, len(agent.messages) - 1))
            agent.pending = []
            agent.tell(self.random.choice(["again", "otherwise"]))
        else:
            agent.results()
            if agent.messages[-1]["role"] == "assistant":
                agent.tell(self.random.choice(["go on", "and?"]))
        self._ask(agent)

    def _begin(self, parent: Agent) -> Agent:
        name = f"agent {len(self.agents)}"
        if self.random.random() < 0.4 and len(parent.messages) > 2:
            agent = self.add(parent.fork(name, parent=parent), max(self.now_s, self.free_s[parent.name]))
            agent.tell(self.random.choice(["one way", "other way"]))
            return agent
        instructions = self.random.choice([parent.instructions, "You help."])
        task = self.random.choice(["Look for it.", ""])
        return self.add(self.script.agent(name, parent, instructions=instructions, task=task), self.now_s)

    def _ask(self, agent: Agent) -> None:
        start = max(self.now_s, self.free_s[agent.name])
        end = start + self.random.choice([0.2, 1.0, 2.0])
        text = self.random.choice(_SAYINGS) if self.is_alike else None
        is_cancelled = self.random.random() < 0.08
        asks = self.random.choice([0, 1, 1, 2])
        agent.ask(start, end, asks=asks, text=text, how="cancelled" if is_cancelled else "done")
        self.free_s[agent.name] = end + self.random.choice([0.0, 0.5])
