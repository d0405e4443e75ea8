"""What the numbers in a trace stand for, for the person who records alone.

A recorder fills this in where it is asked for, and writes none of it: names from outside stand in no trace and no journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from rotoscope.traces.model import Trace


@dataclass(slots=True)
class Names:
    """The names that a run met, by the numbers they have in its trace."""

    tools: dict[int, str] = field(default_factory=dict, repr=False)
    """By the number of the pseudonym: 1 is `tool01`."""
    models: dict[int, str] = field(default_factory=dict, repr=False)
    """By the number of the cache domain."""

    branches: dict[str, list[str]] = field(default_factory=dict, repr=False)
    """By region and index of the branch, `0.1`; the root is `root`. One that several senders share has all their names."""
    _threads: dict[int, str] = field(default_factory=dict, repr=False)

    def thread(self, number: int, name: str) -> None:
        """Keep how a sender calls itself; the one that began a session has no name."""
        if name:
            self._threads[number] = name

    def place(self, trace: Trace, threads: Mapping[int, int]) -> None:
        """Find the branches of the senders, which are given by the number of the call."""
        for call in trace.calls():
            name = self._threads.get(threads.get(call.call, -1))
            branch = "root" if call.branch is None else ".".join(map(str, call.branch))
            if name and name not in self.branches.setdefault(branch, []):
                self.branches[branch].append(name)
        self.branches = {branch: names for branch, names in self.branches.items() if names}

    def tool(self, number: int, name: str) -> None:
        """Keep the name of a tool."""
        self.tools.setdefault(number, name)

    def domain(self, number: int, domain: bytes) -> None:
        """Keep the model of a domain; a salt that is part of it is no name and is left out."""
        if number not in self.models:
            model = orjson.loads(domain)[0]
            self.models[number] = model if isinstance(model, str) else ""
