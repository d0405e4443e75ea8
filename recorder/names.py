"""What the numbers in a trace stand for, for the person who records alone.

A recorder fills this in where it is asked for, and writes none of it: names from outside stand in no trace and no journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson


@dataclass(slots=True)
class Names:
    """The names that a run met, by the numbers they have in its trace."""

    tools: dict[int, str] = field(default_factory=dict, repr=False)
    """By the number of the pseudonym: 1 is `tool01`."""
    models: dict[int, str] = field(default_factory=dict, repr=False)
    """By the number of the cache domain."""

    def tool(self, number: int, name: str) -> None:
        """Keep the name of a tool."""
        self.tools.setdefault(number, name)

    def domain(self, number: int, domain: bytes) -> None:
        """Keep the model of a domain; a salt that is part of it is no name and is left out."""
        if number not in self.models:
            model = orjson.loads(domain)[0]
            self.models[number] = model if isinstance(model, str) else ""
