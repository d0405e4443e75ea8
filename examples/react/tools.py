"""The tools: files and a shell in one folder.

The model reads the docstrings. A tool that cannot do what it is asked raises ValueError or OSError, and the model is
told. Paths cannot leave the folder, not through a symbolic link either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from rotoscope import trace_tool

from .shell import run_shell

OUTPUT_LIMIT = 12_000
"""Characters of a tool's output that the model sees; of more it sees the beginning and the end."""
SEARCH_LIMIT = 60
COMMAND_TIMEOUT_S = 30


class Workspace:
    """The tools of one run, all inside `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.finished = False
        self.tools: dict[str, Callable[..., str]] = {
            "list_files": self.list_files,
            "read_file": self.read_file,
            "search": self.search,
            "edit_file": self.edit_file,
            "run_command": self.run_command,
            "finish": self.finish,
        }

    def call(self, name: str, arguments: str) -> str:
        """Run a tool with arguments as the model wrote them; what goes wrong is told, not raised."""
        if name not in self.tools:
            return f"error: there is no tool {name!r}, only {', '.join(self.tools)}"
        try:
            output = self.tools[name](**json.loads(arguments or "{}"))
        except (OSError, TypeError, ValueError) as error:
            output = f"error: {error}"
        return clip(output.replace(str(self.root), "."))

    @trace_tool
    def list_files(
        self, folder: Annotated[str, "The folder to list, relative to the root of the repository."] = "."
    ) -> str:
        """List all files below a folder of the repository, with their sizes in bytes, one file a line.

        Call it first, to see how the repository is laid out, and again when files have come or gone. Paths are
        relative to the root of the repository, which is how the other tools expect them. Caches are left out.
        """
        paths = list(self._files(self._inside(folder)))
        return "\n".join(f"{self._name(path)}  {path.stat().st_size}" for path in paths) or "no files"

    @trace_tool
    def read_file(
        self,
        path: Annotated[str, "The file to read, relative to the root of the repository."],
        first_line: Annotated[int, "The first line to return; lines are counted from 1."] = 1,
        last_line: Annotated[int, "The last line to return; 0 stands for the end of the file."] = 0,
    ) -> str:
        """Return a text file of the repository, each line with its number in front.

        Read a file before you edit it: edit_file needs its text to the letter. The numbers and the bar after them are
        not part of the file. Small files are best read whole; of a long file, read the lines around what a traceback or
        a search has pointed at. Several files can be read in one answer by calling the tool several times.
        """
        lines = self._text(path).splitlines()
        last = min(last_line or len(lines), len(lines))
        return "\n".join(f"{n:4}| {lines[n - 1]}" for n in range(max(first_line, 1), last + 1)) or "no such lines"

    @trace_tool
    def search(
        self,
        text: Annotated[str, "The text to look for, as it stands in the file. It is no pattern; case matters."],
        folder: Annotated[str, "The folder or file to search, relative to the root of the repository."] = ".",
    ) -> str:
        """Return every line of the repository in which a text occurs, as path, line number and line.

        Use it to find where a function is defined, who calls it, and which tests name it, before you change what it
        does. A search that finds very much is cut short; look for something longer then, or in a smaller folder.
        """
        if not text:
            raise ValueError("there is nothing to look for")
        found = []
        for path in self._files(self._inside(folder)):
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
                if text in line:
                    found.append(f"{self._name(path)}:{number}: {line}")
        more = [f"and {len(found) - SEARCH_LIMIT} more"] if len(found) > SEARCH_LIMIT else []
        return "\n".join(found[:SEARCH_LIMIT] + more) or "not found"

    @trace_tool
    def edit_file(
        self,
        path: Annotated[str, "The file to change, relative to the root of the repository."],
        old_text: Annotated[str, "The text to replace, to the letter, with its indentation. Empty for a new file."],
        new_text: Annotated[str, "The text to put in its place, with its indentation."],
    ) -> str:
        """Replace one piece of a file by another, or write a new file.

        The old text must occur exactly once, so give as many whole lines as make it unique, and no more. Copy it from
        read_file without the line numbers. To write a new file, leave the old text empty; a file that exists is not
        overwritten that way. Make one change at a time, and run the tests after it.
        """
        if not old_text:
            target = self._inside(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                file.write(new_text)
            return f"{path} is written"
        text = self._text(path)
        if (times := text.count(old_text)) != 1:
            raise ValueError(f"the old text must occur once in {path}, it occurs {times} times; read the file again")
        self._inside(path).write_text(text.replace(old_text, new_text), encoding="utf-8")
        return f"{path} is changed"

    @trace_tool
    def run_command(
        self,
        command: Annotated[str, "The command line, for a POSIX shell. Pipes and several commands are fine."],
        timeout_s: Annotated[int, f"Seconds until the command is stopped, at most {COMMAND_TIMEOUT_S}."] = 20,
    ) -> str:
        """Run a shell command in the root of the repository and return its exit status and what it printed.

        Use it to run the tests (all of them, one module or one test), to try an expression with `python -c`, or to look
        at things for which there is no other tool. Output and errors come together in the order in which they were
        printed; of a long output you see the beginning and the end. There is no terminal and no input, so nothing may ask
        for any, and each command starts a shell of its own: a change of folder does not last.
        """
        ending, output = run_shell(command, self.root, timeout_s=min(max(timeout_s, 1), COMMAND_TIMEOUT_S))
        return f"{ending}\n{output}".strip()

    @trace_tool
    def finish(self, summary: Annotated[str, "What was wrong and what you changed, in a few sentences."]) -> str:
        """Say that the work is done, and end the run.

        Call it alone, after the whole test suite has passed, or when you are sure that you cannot get any further.
        The tests are run once more after it, as they were in the beginning, and decide.
        """
        self.finished = True
        return summary

    def _inside(self, path: str) -> Path:
        found = (self.root / path).resolve()
        if not found.is_relative_to(self.root):
            raise ValueError(f"{path!r} is outside of the repository")
        return found

    def _text(self, path: str) -> str:
        found = self._inside(path)
        if not found.is_file():
            raise ValueError(f"there is no file {path!r}; list_files shows which there are")
        return found.read_text(encoding="utf-8")

    def _files(self, folder: Path) -> Iterator[Path]:
        """Yield regular files in order; links that lead out, pipes and caches are left out."""
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
            if path.is_file() and path.resolve().is_relative_to(self.root) and "__pycache__" not in path.parts:
                yield path

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def clip(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Return the text, its middle left out when it is longer than the limit."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[{len(text) - limit} characters left out]\n{text[-(limit // 2) :]}"
