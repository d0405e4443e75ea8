from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from rotoscope.proxy.intercept.leftovers import temporary_folder


def test_what_killed_recordings_left_the_next_one_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders = {name: tmp_path / f"rotoscope-ca-{name}" for name in ("left", "new", "without-a-lock")}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / "authority.pem").touch()
        if name != "without-a-lock":
            (folder / "lock").touch()
        if name != "new":
            os.utime(folder, (0, 0))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lock").touch()
    (tmp_path / "rotoscope-ca-link").symlink_to(outside)
    os.utime(tmp_path / "rotoscope-ca-link", (0, 0), follow_symlinks=False)

    with temporary_folder() as first:
        os.utime(first, (0, 0))
        with temporary_folder():
            running = first.exists()

    assert running
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "outside",
        "rotoscope-ca-link",
        "rotoscope-ca-new",
        "rotoscope-ca-without-a-lock",
    ]
    assert (outside / "lock").exists()
