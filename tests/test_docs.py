"""The documentation: what it says to type exists, what it links to is there, what is generated is up to date."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from rotoscope import current_run
from rotoscope.cli import app
from rotoscope.replayer import metrics
from rotoscope.testing import make_trace
from rotoscope.traces import dumps, loads, save

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")] + sorted(
    [*ROOT.glob("docs/*.md"), ROOT / "examples/README.md", *ROOT.glob("examples/*/README.md")]
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
COMMANDS = getattr(get_command(app), "commands", {})
EXAMPLES = {
    name: (inspect.getdoc(command.callback) or "").rpartition("Example: ")[2] for name, command in COMMANDS.items()
}
SHELL_WORDS = {"cd", "export", "git", "pip", "python"}


def lines_to_type(page: Path) -> Iterator[str]:
    """Yield the commands in the blocks of a page that are marked as shell, without prompts, comments and variables."""
    for language, block in BLOCK.findall(page.read_text()):
        if language == "sh":
            for line in block.replace("\\\n", " ").splitlines():
                yield from filter(None, (part.strip() for part in line.partition("#")[0].rstrip(" &").split("&&")))


def check(line: str) -> None:
    """Fail when a line names a target, a command or an option that there is not; nothing is run."""
    words = shlex.split(line)
    while "=" in words[0]:
        words = words[1:]
    name, *arguments = words
    if Path(name).name == "make":
        assert set(targets(arguments)) <= makefile_targets()
    elif Path(name).name == "rotoscope":
        check_command(arguments)
    else:
        assert Path(name).name in SHELL_WORDS | {"pytest"}


def check_command(arguments: list[str]) -> None:
    if arguments and arguments[0] in COMMANDS and "--help" not in arguments:
        COMMANDS[arguments[0]].make_context(arguments[0], arguments[1:]).close()
    else:
        assert set(arguments) <= {"--help", "--version", *COMMANDS}


def targets(arguments: list[str]) -> list[str]:
    return [word for word in arguments if "=" not in word and not word.startswith("-")]


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_to_type_exists(page: Path) -> None:
    for line in lines_to_type(page):
        check(line)


@pytest.mark.parametrize("line", ["make everything", "rotoscope replay --fast traces", "rotoscope fly", "curl host"])
def test_what_does_not_exist_is_seen(line: str) -> None:
    with pytest.raises(Exception, match=r".+"):
        check(line)


def test_every_target_of_the_makefile_is_explained() -> None:
    explained = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()

    described = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [target for target in described if target != "help" and f"make {target}" not in explained] == []


def test_ci_runs_only_what_is_explained() -> None:
    explained = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()

    (called,) = re.findall(r"^for target in (.*); do$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert [target for target in called.split() if f"make {target}" not in explained] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_has_a_page_and_an_example_that_it_accepts(name: str) -> None:
    assert f"<!-- begin options of {name} -->" in (ROOT / f"docs/{name}.md").read_text()
    assert EXAMPLES[name].startswith(f"rotoscope {name}")
    check(EXAMPLES[name].strip())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_and_option_says_what_it_is(name: str) -> None:
    assert [parameter.name for parameter in COMMANDS[name].params if not getattr(parameter, "help", "")] == []


def test_every_field_of_a_file_says_what_it_means() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", (ROOT / "docs/trace-format.md").read_text(), re.MULTILINE)

    assert len(rows) > 50
    assert [field for field, meaning in rows if not meaning.strip()] == []


def test_generated_parts_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "docs/generate.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            linked = page.parent / file if file else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), target


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_one_sentence_a_line(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text())

    assert [line for line in prose.splitlines() if re.search(r"[a-z)`][.?!] [A-Z]", line) and line[0] != "|"] == []


def test_the_example_of_the_format_is_a_trace_and_written_as_we_write_it() -> None:
    (example,) = (
        block for language, block in BLOCK.findall((ROOT / "docs/trace-format.md").read_text()) if language == "json"
    )

    assert dumps(loads(example.encode())).decode() == example


def test_every_metric_of_a_replay_is_explained() -> None:
    functions = [
        name
        for name, value in vars(metrics).items()
        if getattr(value, "__code__", None) and value.__module__ == metrics.__name__
    ]
    explained = set(re.findall(r"`(\w+)`", (ROOT / "docs/metrics.md").read_text()))

    assert [name for name in functions if name not in explained] == []


def test_the_program_in_the_readme_runs(tmp_path: Path) -> None:
    (program,) = (block for language, block in BLOCK.findall((ROOT / "README.md").read_text()) if language == "python")
    (tmp_path / "recordings").mkdir()
    save(make_trace(turns=2, isl=100, osl=20, new=30, system=0), tmp_path / "recordings/run-0001.trace.json")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)

    assert float(done.stdout) == (100 + 20) / (100 + 150)


def programs_of_the_sdk() -> list[str]:
    return [block for language, block in BLOCK.findall((ROOT / "docs/sdk.md").read_text()) if language == "python"]


def test_the_first_program_of_the_sdk_runs_where_nothing_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda question: "")
    names: dict[str, Any] = {}
    exec(programs_of_the_sdk()[0], names)  # noqa: S102 - our own page

    assert asyncio.run(names["supervisor"](["tides", "soil"])) == [None, None]


@pytest.mark.parametrize("program", [one for one in programs_of_the_sdk() if "current_run()" in one])
def test_programs_of_the_sdk_do_not_fail_where_nothing_records(program: str) -> None:
    called: list[str] = []

    def anything(name: str) -> Any:
        return lambda *arguments, **named: called.append(name)

    names: dict[str, Any] = {
        "current_run": current_run,
        "client": SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=anything("create")))),
        "pool": SimpleNamespace(submit=anything("submit")),
        "subprocess": SimpleNamespace(run=anything("run")),
        "context": SimpleNamespace(Process=anything("Process")),
        "os": os,
    } | dict.fromkeys(("search", "query", "command", "topic", "research"))
    exec(program.replace("(..., ", "("), names)  # noqa: S102 - our own page

    assert len(called) == 1
