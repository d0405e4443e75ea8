from __future__ import annotations

from pathlib import Path

import pytest
from swept_runs import measured

from rotoscope.replayer.sweep.pictures import check_picture
from rotoscope.replayer.sweep.plots import has_matplotlib, hit_rate_svg, pareto_svg
from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import FileFindings, Findings

SECRET = b"what somebody wrote"
HEAD = b"""<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" version="1.1">"""


def found(picture: bytes) -> Findings:
    findings = Findings()
    check_picture(picture, FileFindings("pareto.svg", findings), Census())
    return findings


@pytest.mark.skipif(not has_matplotlib(), reason="no matplotlib is installed here")
def test_pictures_of_a_sweep_pass_and_their_texts_are_listed(tmp_path: Path) -> None:
    points = [
        measured(tmp_path, 1),
        measured(tmp_path, 2, concurrency=4),
        measured(tmp_path, 3, concurrency=8, failed=1),
    ]

    for draw in (pareto_svg, hit_rate_svg):
        picture = draw(points, ["batch"])
        assert picture is not None
        assert [str(one) for one in found(picture).kept] == []
        assert "batch 8" in {name.value for name in found(picture).names}


def test_a_small_picture_passes() -> None:
    inside = b'<g id="text_1"><text x="1.5" style="font-size: 8px; fill: #666666">(8, 16)</text></g>'

    findings = found(HEAD + inside + b"</svg>")

    assert findings.total == 0
    assert [name.value for name in findings.names] == ["(8, 16)"]


@pytest.mark.parametrize(
    "inside",
    [
        b"<!-- %b -->" % SECRET,
        b"<?what somebody wrote?>",
        b"<metadata>x</metadata>",
        b"<script>1</script>",
        b'<g id="%b"/>' % SECRET,
        b'<g data-what="1"/>',
        b'<path d="M 0 0 %b"/>' % SECRET,
        b'<text style="font-family: %b">1</text>' % SECRET,
        b"<g>%b</g>" % SECRET,
        b"<g/>%b" % SECRET,
        b"<style>%b</style>" % SECRET,
        b"<text>%b</text>" % (SECRET * 10),
        b"<text>two\nlines</text>",
        b'<use xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="http://host/x"/>',
        b"<g>",
    ],
)
def test_anything_else_does_not(inside: bytes) -> None:
    findings = found(HEAD + inside + b"</svg>")

    assert findings.total
    assert SECRET.decode() not in "".join(map(str, findings.kept))


def test_another_head_does_not() -> None:
    assert found(b"<svg/>").total == 1
