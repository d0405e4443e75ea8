import json
import os
from pathlib import Path

import pytest
from scripted_agent import toy_workspace

from examples.react import tools
from examples.react.tools import OUTPUT_LIMIT, SEARCH_LIMIT, Workspace, clip

SECRET = "what lies outside"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "outside.txt").write_text(SECRET)
    return toy_workspace(tmp_path)


def call(workspace: Workspace, name: str, **arguments: object) -> str:
    return workspace.call(name, json.dumps(arguments))


OUTSIDE = ["../outside.txt", "tally/../../outside.txt", "{tmp}/outside.txt", "link", "folder/outside.txt"]


def outside_path(workspace: Workspace, path: str) -> str:
    """Return a path that leads out, with the links it needs."""
    (workspace.root / "link").symlink_to(workspace.root.parent / "outside.txt")
    (workspace.root / "folder").symlink_to(workspace.root.parent)
    return path.format(tmp=workspace.root.parent)


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(workspace: Workspace, path: str) -> None:
    path = outside_path(workspace, path)

    outputs = [
        call(workspace, "read_file", path=path),
        call(workspace, "list_files", folder=path),
        call(workspace, "search", text="what", folder=path),
        call(workspace, "edit_file", path=path, old_text="what", new_text="WHAT"),
        call(workspace, "edit_file", path=path, old_text="", new_text="WHAT"),
    ]

    assert all("is outside of the repository" in output for output in outputs)
    assert (workspace.root.parent / "outside.txt").read_text() == SECRET


def test_a_dangling_link_cannot_be_written_through(workspace: Workspace) -> None:
    (workspace.root / "dangling").symlink_to(workspace.root.parent / "new.txt")

    output = call(workspace, "edit_file", path="dangling", old_text="", new_text="x")

    assert "is outside of the repository" in output
    assert not (workspace.root.parent / "new.txt").exists()


def test_listing_and_searching_do_not_follow_links_out(workspace: Workspace) -> None:
    outside_path(workspace, "")

    listing = call(workspace, "list_files")

    assert "link" not in listing
    assert "outside.txt" not in listing
    assert call(workspace, "search", text=SECRET) == "not found"


def test_a_pipe_is_not_waited_for(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")

    assert "there is no file 'pipe'" in call(workspace, "read_file", path="pipe")
    assert "pipe" not in call(workspace, "list_files")


def test_files_are_listed_with_sizes_and_without_caches(workspace: Workspace) -> None:
    (workspace.root / "tally" / "__pycache__").mkdir()
    (workspace.root / "tally" / "__pycache__" / "money.pyc").write_bytes(b"x")
    size = (workspace.root / "tally" / "money.py").stat().st_size

    listing = call(workspace, "list_files", folder="tally").splitlines()

    assert f"tally/money.py  {size}" in listing
    assert not any("pyc" in line for line in listing)


def test_lines_are_read_with_their_numbers(workspace: Workspace) -> None:
    (workspace.root / "three.txt").write_text("one\ntwo\nthree\n")

    assert call(workspace, "read_file", path="three.txt").splitlines() == ["   1| one", "   2| two", "   3| three"]
    assert call(workspace, "read_file", path="three.txt", first_line=2, last_line=9).splitlines()[0] == "   2| two"
    assert call(workspace, "read_file", path="three.txt", first_line=7) == "no such lines"


def test_a_search_names_path_and_line(workspace: Workspace) -> None:
    assert "tally/sharing.py:8: def split_evenly(" in call(workspace, "search", text="def split_evenly")


def test_a_long_search_is_cut_short(workspace: Workspace) -> None:
    (workspace.root / "many.txt").write_text("needle\n" * (SEARCH_LIMIT + 5))

    assert call(workspace, "search", text="needle").splitlines()[-1] == "and 5 more"


def test_a_text_that_occurs_once_is_replaced(workspace: Workspace) -> None:
    file = workspace.root / "once.txt"
    file.write_text("one two two")

    assert call(workspace, "edit_file", path="once.txt", old_text="one", new_text="three") == "once.txt is changed"
    assert "occurs 2 times" in call(workspace, "edit_file", path="once.txt", old_text="two", new_text="four")
    assert "occurs 0 times" in call(workspace, "edit_file", path="once.txt", old_text="ten", new_text="four")
    assert file.read_text() == "three two two"


def test_a_new_file_is_written_and_an_old_one_is_not_overwritten(workspace: Workspace) -> None:
    assert call(workspace, "edit_file", path="new/file.txt", old_text="", new_text="x") == "new/file.txt is written"
    assert "error" in call(workspace, "edit_file", path="new/file.txt", old_text="", new_text="y")
    assert (workspace.root / "new" / "file.txt").read_text() == "x"


def test_a_command_runs_in_the_repository_whose_place_is_not_shown(workspace: Workspace) -> None:
    assert call(workspace, "run_command", command="pwd; cat README.md | head -n 1; exit 3") == (
        "exit status 3\n.\n# tally"
    )


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (7, 7), (10**6, tools.COMMAND_TIMEOUT_S)])
def test_a_command_has_the_time_it_asks_for_and_no_more_than_allowed(
    workspace: Workspace, asked: int, given: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "run_shell", lambda command, folder, *, timeout_s: (f"{command} in {timeout_s} s", ""))

    assert call(workspace, "run_command", command="wait", timeout_s=asked) == f"wait in {given} s"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("format_disk", "{}", "there is no tool 'format_disk'"),
        ("read_file", "{", "error: "),
        ("read_file", "[]", "error: "),
        ("read_file", "{}", "missing 1 required positional argument: 'path'"),
        ("read_file", '{"path": "README.md", "depth": 1}', "unexpected keyword argument 'depth'"),
        ("read_file", '{"path": 3}', "error: "),
        ("read_file", '{"path": "a\\u0000b"}', "error: "),
        ("read_file", '{"path": "\\ud800"}', "error: "),
        ("search", '{"text": ""}', "nothing to look for"),
    ],
)
def test_what_a_model_gets_wrong_is_told_to_it(workspace: Workspace, name: str, arguments: str, told: str) -> None:
    assert told in workspace.call(name, arguments)


def test_a_long_output_loses_its_middle() -> None:
    text = clip("a" * OUTPUT_LIMIT + "b" * OUTPUT_LIMIT)

    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert f"[{OUTPUT_LIMIT} characters left out]" in text
    assert len(text) < OUTPUT_LIMIT + 50


def test_to_finish_ends_the_run(workspace: Workspace) -> None:
    assert not workspace.finished

    assert call(workspace, "finish", summary="all is well") == "all is well"

    assert workspace.finished
