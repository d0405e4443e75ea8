"""The folders: what ships, where links lead, who may import whom, where a module's tests are."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("proxy", "recorder", "replayer", "sdk", "traces")
MAY_IMPORT = {
    "traces": {"traces"},
    "recorder": {"recorder", "traces"},
    "proxy": {"__version__", "proxy", "recorder", "traces"},
    "sdk": {"__version__", "sdk", "recorder", "traces"},
    "replayer": {"__version__", "replayer", "traces"},
}
"""What a folder may import of ours; src/rotoscope may import all of them."""


def setuptools_table() -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    return table


def packages_below(folder: Path, name: str) -> Iterator[str]:
    """Yield the import names of the packages in a folder, without following links."""
    for init in folder.rglob("__init__.py"):
        yield ".".join([name, *init.parent.relative_to(folder).parts])


def imports_of(path: Path, package: str) -> Iterator[tuple[int, str]]:
    """Yield line and full name of everything that a file imports, in functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def refused_imports(path: Path, package: str, allowed: set[str]) -> list[str]:
    """Name the imports of ours in a file that lie outside the allowed folders; `rotoscope` itself imports all."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for line, name in imports_of(path, package)
        if name.split(".")[0] == "rotoscope" and [*name.split("."), ""][1] not in allowed
    ]


def test_every_package_ships() -> None:
    expected = {"rotoscope", *packages_below(ROOT / "src/rotoscope/commands", "rotoscope.commands")}
    for folder in FOLDERS:
        expected.update(packages_below(ROOT / folder, f"rotoscope.{folder}"))

    assert setuptools_table()["packages"] == sorted(expected)


def test_every_module_is_in_a_package() -> None:
    roots = [ROOT / folder for folder in FOLDERS] + [ROOT / "src/rotoscope/commands"]
    folders_of_modules = {path.parent for root in roots for path in root.rglob("*.py")}

    assert [str(f) for f in folders_of_modules if not (f / "__init__.py").exists()] == []


def test_each_folder_is_the_subpackage_of_its_name() -> None:
    expected = {"rotoscope": "src/rotoscope"} | {f"rotoscope.{folder}": folder for folder in FOLDERS}

    assert setuptools_table()["package-dir"] == expected


@pytest.mark.parametrize("folder", FOLDERS)
def test_link_leads_to_the_folder(folder: str) -> None:
    link = ROOT / "src/rotoscope" / folder

    assert link.is_symlink(), "this checkout has no links: type checkers need them (git config core.symlinks true)"
    assert link.resolve() == ROOT / folder
    assert not link.readlink().is_absolute()


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_imports_only_what_it_may(folder: str) -> None:
    refused = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        package = ".".join(["rotoscope", *path.parent.relative_to(ROOT).parts])
        refused += refused_imports(path, package, MAY_IMPORT[folder])

    assert refused == []


def test_a_refused_import_is_found_in_a_function_and_in_relative_form(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def f():\n    from ..replayer import run\n    import rotoscope.sdk.spans\nfrom rotoscope import proxy\n"
    )

    assert sorted(imports_of(path, "rotoscope.traces")) == [
        (2, "rotoscope.replayer.run"),
        (3, "rotoscope.sdk.spans"),
        (4, "rotoscope.proxy"),
    ]


def test_each_test_file_mirrors_a_module_or_is_of_a_law() -> None:
    strays = []
    for path in sorted((ROOT / "tests").glob("*/**/test_*.py")):
        folder, name = path.parent.relative_to(ROOT / "tests"), path.stem.removeprefix("test_")
        homes = [ROOT / folder / f"{name}.py", ROOT / "src/rotoscope" / folder / f"{name}.py"]
        is_law = name.endswith(("_law", "_laws"))
        if (
            folder.parts[0]
            not in ("aiperf", "clients", "coding_agents", "engine", "intercept", "otlp_clients", "phoenix")
            and not is_law
            and not any(home.exists() for home in homes)
        ):
            strays.append(str(path.relative_to(ROOT)))

    assert strays == []
