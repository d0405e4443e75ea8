"""What is shipped: the wheel, and the wheel made from the source distribution, built without an index."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import rotoscope

ROOT = Path(__file__).parents[1]
FOLDERS = ("proxy", "recorder", "replayer", "sdk", "traces")
SOURCES = (*FOLDERS, "src", "pyproject.toml", "README.md", "LICENSE")


def build(kind: str, source: Path, into: Path) -> Path:
    """Build a `wheel` or an `sdist` of a source tree with the backend of this environment."""
    call = f"import sys, setuptools.build_meta as backend; print(backend.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", call, str(into)], cwd=source, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what ships: building leaves folders behind."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", source, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", source, tmp_path_factory.mktemp("sdist"))


def contents(wheel: zipfile.ZipFile) -> dict[str, bytes]:
    """Return the shipped files by name, without the folder that describes the package."""
    return {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: zipfile.ZipFile) -> str:
    return wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode()


def test_the_only_top_level_name_is_rotoscope(wheel: zipfile.ZipFile) -> None:
    assert {name.split("/")[0] for name in contents(wheel)} == {"rotoscope"}


def test_every_module_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    modules = {f"rotoscope/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    own = {path for pattern in ("*.py", "commands/**/*.py") for path in (ROOT / "src/rotoscope").glob(pattern)}
    modules |= {str(path.relative_to(ROOT / "src")) for path in own}

    assert {name for name in contents(wheel) if name.endswith(".py")} == modules


def test_type_checkers_are_told_that_the_package_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "rotoscope/py.typed" in contents(wheel)


def test_nothing_but_code_and_its_data_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    assert [name for name in contents(wheel) if Path(name).suffix not in {".py", ".typed", ".json"}] == []


def test_version_and_licence_are_told(wheel: zipfile.ZipFile) -> None:
    assert f"\nVersion: {rotoscope.__version__}\n" in metadata(wheel)
    assert "\nLicense-Expression: Apache-2.0\n" in metadata(wheel)
    assert any(name.endswith("/LICENSE") for name in wheel.namelist())


def test_source_distribution_gives_the_same_wheel(sdist: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        assert not [member.name for member in archive if member.issym()]
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()

    assert contents(zipfile.ZipFile(build("wheel", unpacked, tmp_path))) == contents(wheel)


def test_installed_wheel_runs_and_brings_no_other_name(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import importlib.util as util, pkgutil, rotoscope\n"
        f"assert rotoscope.__file__.startswith({str(tmp_path)!r}), rotoscope.__file__\n"
        f"assert [name for name in {FOLDERS} if util.find_spec(name)] == []\n"
        "has_mitmproxy = util.find_spec('mitmproxy') is not None\n"
        "for module in pkgutil.walk_packages(rotoscope.__path__, 'rotoscope.'):\n"
        "    if has_mitmproxy or not module.name.startswith('rotoscope.proxy.intercept.'):\n"
        "        module.name.endswith('__main__') or __import__(module.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path.parent, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
