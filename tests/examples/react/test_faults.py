from collections.abc import Mapping
from pathlib import Path

import pytest
from scripted_agent import toy_workspace

from examples.react.agent import HERE, TEST_COMMAND, TOY_REPOSITORY
from examples.react.faults import FAULTS, Fault, leave_only
from examples.react.ideas import IDEAS, STANDING
from examples.react.shell import run_shell
from examples.react.tools import Workspace
from examples.tasks import load_tasks

TASKS = [task["faults"].split() for task in load_tasks(HERE)]


def repository(folder: Path, *names: str, instead: Mapping[str, str] | None = None) -> Workspace:
    """Return a copy that has these faults; `instead` holds what stands in the place of some of them."""
    workspace = toy_workspace(folder)
    leave_only(names, workspace.root)
    for name, text in (instead or {}).items():
        file = workspace.root / FAULTS[name].path
        file.write_text(file.read_text().replace(FAULTS[name].faulty, text))
    return workspace


def failing(workspace: Workspace) -> set[str]:
    """Return the modules whose tests fail."""
    _, output = run_shell(TEST_COMMAND, workspace.root, timeout_s=60)
    return {name for name in {fault.module for fault in FAULTS.values()} if f"test_{name}." in output}


def test_without_faults_all_tests_pass(tmp_path: Path) -> None:
    assert failing(repository(tmp_path)) == set()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_stands_once_where_it_is_and_nowhere_else(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    faulty, sound = repository(tmp_path / "with", name), repository(tmp_path / "without")

    assert texts(faulty, fault) == (0, 1)
    assert texts(sound, fault) == (1, 0)


def texts(workspace: Workspace, fault: Fault) -> tuple[int, int]:
    code = (workspace.root / fault.path).read_text()
    return code.count(fault.sound), code.count(fault.faulty)


def test_the_repository_as_it_comes_is_the_first_task(tmp_path: Path) -> None:
    for name in FAULTS:
        path = FAULTS[name].path
        assert (repository(tmp_path / name, *TASKS[0]).root / path).read_text() == (TOY_REPOSITORY / path).read_text()


def test_each_task_has_other_faults_in_modules_of_their_own() -> None:
    assert len(set(map(frozenset, TASKS))) == len(TASKS) == 30
    for task in TASKS:
        assert 3 <= len({FAULTS[name].module for name in task}) == len(task)
    assert {name for task in TASKS for name in task} == set(FAULTS)


@pytest.mark.parametrize(
    "names",
    [
        [idea.name for idea in STANDING],
        [idea.name for idea in IDEAS if idea not in STANDING and idea.module not in ("settlement", "report")],
        ["settlement-sharers"],
        ["report-columns"],
    ],
    ids=["standing", "others", "settlement", "report"],
)
def test_the_tests_refuse_each_fault_and_each_first_try(names: list[str], tmp_path: Path) -> None:
    modules = {FAULTS[name].module for name in names}
    first_tries = {idea.name: idea.first_try for idea in IDEAS if idea.name in names}

    assert failing(repository(tmp_path / "faulty", *names)) >= modules
    assert failing(repository(tmp_path / "tried", *names, instead=first_tries)) >= modules
