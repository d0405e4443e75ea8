"""Folders of sweeps that nobody has run."""

from __future__ import annotations

from pathlib import Path

from rotoscope.replayer.sweep.folder import SweepFolder
from rotoscope.replayer.sweep.plan import SweepPlan
from rotoscope.replayer.sweep.run import FORMAT_NAME, FORMAT_VERSION, PLAN_FILE


def make_sweep(path: Path, **settings: tuple[str, ...]) -> tuple[SweepFolder, SweepPlan]:
    """Write the plan of a sweep at concurrency 1 over these settings."""
    plan = SweepPlan(
        version="0.1.0",
        concurrency=(1,),
        settings=settings,
        sessions=4,
        sessions_per_user=None,
        seed=0,
        corpus_sha256="0" * 64,
        server_check="1a2b",
        options={"timeout_s": 600.0, "model": None},
    )
    content = plan.as_dict()
    folder = SweepFolder.opened(path, file=PLAN_FILE, format_name=FORMAT_NAME, version=FORMAT_VERSION, plan=content)
    return folder, plan
