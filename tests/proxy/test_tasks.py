from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from rotoscope.proxy.tasks import Task, read_tasks, with_task
from rotoscope.traces.errors import UnusableInput


def test_tasks_are_the_lines_that_are_not_empty(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_bytes(b"first\n\n  second one \r\n\t\nlast")

    assert read_tasks(tmp_path / "tasks") == [Task(1, "first"), Task(3, "  second one "), Task(5, "last")]


def test_mark_of_byte_order_is_no_part_of_the_first_task(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")

    assert [task.text for task in read_tasks(tmp_path / "tasks")] == ["one", "\ufefftwo"]


def test_bytes_that_are_no_text_reach_the_command_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_bytes(b"\xff\xe9 and more\n")

    (task,) = read_tasks(tmp_path / "tasks")
    assert task.text.encode(errors="surrogateescape") == b"\xff\xe9 and more"


def test_hyphen_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))

    assert [task.text for task in read_tasks(Path("-"))] == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\n \n", "there is no task"), (b"a\nb\0c\n", ":2: a task with a zero byte"), (None, "cannot be read")],
)
def test_file_without_tasks_is_refused(content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "tasks").write_bytes(content)

    with pytest.raises(UnusableInput, match=says):
        read_tasks(tmp_path / "tasks")


def test_task_stands_where_its_place_is_or_at_the_end() -> None:
    task = Task(1, "two words {}")

    assert with_task(["agent", "--task={}", "-x", "{}"], task) == ["agent", "--task=two words {}", "-x", "two words {}"]
    assert with_task(["agent", "-x"], task) == ["agent", "-x", "two words {}"]


def test_text_of_a_task_is_not_shown() -> None:
    assert "secret" not in repr(Task(1, "secret"))
