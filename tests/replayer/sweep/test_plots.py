from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from swept_runs import measured

from rotoscope.replayer.sweep.plots import has_matplotlib, hit_rate_svg, pareto_svg
from rotoscope.replayer.sweep.rows import Measured

pytestmark = pytest.mark.skipif(not has_matplotlib(), reason="no matplotlib is installed here")


@pytest.fixture
def points(tmp_path: Path) -> list[Measured]:
    found = []
    for number, (batch, concurrency, job_s) in enumerate(
        [("8", 2, 5.0), ("8", 4, 8.0), ("16", 2, 6.0), ("16", 4, 7.0)]
    ):
        one = measured(tmp_path, number, concurrency=concurrency, job_s=job_s)
        found.append(replace(one, point=replace(one.point, settings={"batch": batch})))
    return found


def texts(picture: bytes | None) -> list[str]:
    assert picture is not None
    return [one.text or "" for one in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_points_are_labelled_with_their_settings_and_concurrency(points: list[Measured]) -> None:
    drawn = texts(pareto_svg(points, ["batch"]))

    assert {"(8, 2)", "(8, 4)", "(16, 2)", "(16, 4)"} <= {*drawn}
    assert {"batch 8", "batch 16", "Pareto frontier", "jobs/h/user, 95 % interval"} <= {*drawn}
    assert "labels: (batch, sessions in flight)" in drawn
    assert "not valid" not in drawn
    assert "simulated" not in drawn


def test_points_in_one_place_have_one_label(points: list[Measured]) -> None:
    same = [*points, replace(points[0], point=replace(points[0].point, number=9, settings={"batch": "32"}))]

    drawn = texts(pareto_svg(same, ["batch"]))

    assert "(8, 2) +1" in drawn
    assert "(32, 2)" not in drawn


def test_points_that_are_not_valid_are_told_apart(tmp_path: Path) -> None:
    drawn = texts(pareto_svg([measured(tmp_path, 1, failed=1), measured(tmp_path, 2, concurrency=4)], []))

    assert "labels: sessions in flight" in drawn
    assert "not valid" in drawn
    assert {"2", "4"} <= {*drawn}


def test_the_hit_rate_stands_beside_its_optimum(points: list[Measured]) -> None:
    drawn = texts(hit_rate_svg(points, ["batch"]))

    assert {"optimum of the same requests", "batch 8", "sessions in flight", "2", "4"} <= {*drawn}


def test_what_is_simulated_says_so_in_the_picture(points: list[Measured]) -> None:
    setup = replace(points[0].summary.setup, simulated=True)
    simulated = [replace(one, summary=replace(one.summary, setup=setup)) for one in points]

    for picture in (pareto_svg(simulated, ["batch"]), hit_rate_svg(simulated, ["batch"])):
        assert "simulated" in texts(picture)


def test_the_same_points_are_the_same_bytes_and_tell_nothing_of_the_machine(points: list[Measured]) -> None:
    picture = pareto_svg(points, ["batch"])

    assert picture == pareto_svg(points, ["batch"])
    assert picture is not None
    assert b"<!--" not in picture
    assert b"metadata" not in picture


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    assert pareto_svg([], []) is None
    assert hit_rate_svg([], []) is None
    assert pareto_svg([measured(tmp_path, 1, failed=16)], []) is None
