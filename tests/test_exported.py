"""What each package says it offers: `__all__` is sorted, complete and true."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import rotoscope

ROOT = Path(__file__).parents[1]
INITS = sorted(
    path.relative_to(ROOT)
    for folder in ("proxy", "recorder", "replayer", "sdk", "traces", "src/rotoscope/commands")
    for path in (ROOT / folder).rglob("__init__.py")
)


def package_of(init: Path) -> str:
    return ".".join(["rotoscope", *[part for part in init.parent.parts if part not in ("src", "rotoscope")]])


def names_imported_by(init: Path) -> list[str]:
    """Name what a package imports, and what it imports for type checkers and loads on first use."""
    imports = [node for node in ast.walk(ast.parse((ROOT / init).read_text())) if isinstance(node, ast.ImportFrom)]
    return [
        alias.asname or alias.name
        for node in imports
        if (node.module or "").split(".")[0] == "rotoscope" or node.level
        for alias in node.names
    ]


def is_for_loading(node: ast.stmt) -> bool:
    """Tell whether a statement is there for type checkers alone, or at run time in their stead."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@pytest.mark.parametrize("init", INITS, ids=str)
def test_all_is_sorted_and_names_what_the_package_imports(init: Path) -> None:
    exported = getattr(import_module(package_of(init)), "__all__", [])

    assert list(exported) == sorted(set(names_imported_by(init)))
    assert [name for name in exported if not hasattr(import_module(package_of(init)), name)] == []


@pytest.mark.parametrize("init", INITS, ids=str)
def test_package_says_what_it_is_for_and_holds_no_logic(init: Path) -> None:
    module = ast.parse((ROOT / init).read_text())
    _, *rest = module.body

    assert len(ast.get_docstring(module) or "") > 1
    assert all(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) or is_for_loading(node) for node in rest)


def test_public_names_are_sorted_and_load() -> None:
    names = list(rotoscope.__all__)

    assert names == sorted(names)
    assert [name for name in names if getattr(rotoscope, name, None) is None] == []


def test_public_names_are_the_same_for_type_checkers_and_at_run_time() -> None:
    tree = ast.parse((ROOT / "src/rotoscope/__init__.py").read_text())
    for_checkers = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert for_checkers == rotoscope._HOMES
    assert set(rotoscope.__all__) == set(for_checkers)


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'loaf'"):
        rotoscope.loaf  # type: ignore[attr-defined]  # noqa: B018
