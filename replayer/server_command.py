"""The command that starts a server, as a template: `serve --port {port} --max-batch {batch}`.

It is split into words as a shell would, and no shell runs it. Only `{name}` is a field, so that JSON in an argument stays
as it is. A field is filled within its word: no value becomes two words.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from rotoscope.traces.errors import UnusableInput

PORT = "port"
"""The field that stands for a free port of this machine."""
CONCURRENCY = "concurrency"
"""The field that stands for the sessions in flight."""
_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The words of a template."""

    template: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, *, settings: Collection[str]) -> Self:
        """Read a template; raise UnusableInput where it cannot be started, or has another field than these two and settings."""
        try:
            command = cls(tuple(shlex.split(text)))
        except ValueError as error:
            raise UnusableInput(f"the server command cannot be split into words: {error}") from error
        if not command.template:
            raise UnusableInput("the server command is empty")
        unknown = sorted(command.fields - {PORT, CONCURRENCY, *settings})
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in (PORT, CONCURRENCY, *sorted(settings)))
            raise UnusableInput(
                f"the server command has the field {{{unknown[0]}}} but there are only {known}: correct it, or give its values with --set"
            )
        command._check_program()
        return command

    @property
    def fields(self) -> set[str]:
        return {name for word in self.template for name in _FIELD.findall(word)}

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Return the words to run, with a value for each field."""
        return [_FIELD.sub(lambda found: values[found[1]], word) for word in self.template]

    def __str__(self) -> str:
        return shlex.join(self.template)

    def _check_program(self) -> None:
        program = self.template[0]
        if _FIELD.search(program) or shutil.which(program):
            return
        hint = ": put 'env' before variables" if "=" in program else ": install it or give its path"
        raise UnusableInput(f"the server command starts with {program!r}, which is no program here{hint}")
