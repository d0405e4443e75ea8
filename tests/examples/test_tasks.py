import argparse
from pathlib import Path

import pytest

from examples.tasks import add_option, load_tasks


@pytest.fixture
def parser(tmp_path: Path) -> argparse.ArgumentParser:
    (tmp_path / "tasks.jsonl").write_text('{"question": "Why?"}\n{"question": "How?"}\n')
    parser = argparse.ArgumentParser()
    add_option(parser, tmp_path)
    return parser


def test_tasks_are_numbered_from_one(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    assert parser.parse_args(["--task", "2"]).task == load_tasks(tmp_path)[1] == {"question": "How?"}
    assert parser.parse_args([]).task == {"question": "Why?"}


@pytest.mark.parametrize("number", ["0", "3", "-1", "two", ""])
def test_another_number_is_refused(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args([f"--task={number}"])

    assert f"{number!r} is not between 1 and 2" in capsys.readouterr().err
