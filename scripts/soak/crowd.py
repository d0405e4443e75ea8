"""All clients of a soak: runs of several clients each, some at once, one after another."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from scripts.soak.clients import Canaries, Client, Run
from scripts.soak.ledger import Outcome, RunLedger
from scripts.soak.plans import Weather

_KINDS = ("name", "name", "name", "name", "left", "session")
"""How runs are named, and whether they are left to end by themselves: a session always is."""


@dataclass
class Crowd:
    """Everybody who asks, and what they know."""

    address: tuple[str, int]
    seed: int
    clients: int
    """How many a run has."""
    weather: Weather
    canaries: Canaries = field(init=False)
    ledgers: list[RunLedger] = field(default_factory=list)
    digests: dict[str, bytes] = field(default_factory=dict)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """What clients saw and should not have."""
    done: int = 0
    """Requests that have ended."""
    on_done: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.canaries = Canaries.drawn(random.Random(self.seed))

    @property
    def in_flight(self) -> int:
        """How many requests are open."""
        return sum(len(ledger.open) for ledger in self.ledgers[-100:])

    async def runs(self, sizes: list[int], *, at_once: int, end: Callable[[str], Awaitable[None]]) -> None:
        """Make runs of so many calls, some at once; `end` ends those that are ended by name."""
        waiting = iter(sizes)

        async def one_after_another() -> None:
            for size in waiting:
                number = len(self.ledgers)
                kind = _KINDS[number % len(_KINDS)]
                ledger = RunLedger(f"run-{number}", "session" if kind == "session" else "name")
                start = (
                    1 + size * (number // len(_KINDS) % 8) if kind == "session" else 1
                )  # its numbers tell its traces
                await self.run(ledger, iter(range(start, start + size)))
                if kind == "name":
                    await end(ledger.name)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(one_after_another())

    async def run(self, ledger: RunLedger, numbers: Iterator[int], *, most_turns: int = 12) -> None:
        """Let the clients of one run make its calls."""
        self.ledgers.append(ledger)
        run = Run(ledger, numbers, self.canaries, self.weather, self.digests, self._told, most_turns)
        async with asyncio.TaskGroup() as group:
            for client in range(self.clients):
                chance = random.Random(f"{self.seed} {ledger.name} {client}")
                group.create_task(Client(self.address, run, chance).work())

    def _told(self, outcome: Outcome, wrong: str) -> None:
        self.done += 1
        self.outcomes[outcome] += 1
        if wrong:
            self.wrong.append(wrong)
        self.on_done()

    def problems(self) -> list[str]:
        """Return what clients saw and should not have."""
        return [f"{len(self.wrong)} requests went wrong: {x[:600]}" for x in self.wrong[:5]]


def sizes_of(calls: int, calls_a_run: int) -> list[int]:
    """Divide calls into runs."""
    whole, rest = divmod(calls, calls_a_run)
    return [calls_a_run] * whole + ([rest] if rest else [])
