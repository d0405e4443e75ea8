from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.recorder.campaigns import Campaigns
from rotoscope.traces.errors import UnusableInput


def said(folder: Path, *arguments: str) -> str:
    """Return what the command says; its errors are raised."""
    variables = {"ROTOSCOPE_CAMPAIGNS": str(folder)}
    return CliRunner().invoke(app, ["campaign", *arguments], env=variables, catch_exceptions=False).output


def test_campaign_is_started_listed_and_ended(tmp_path: Path) -> None:
    assert said(tmp_path, "list") == ""
    assert said(tmp_path, "start", "nightly") == "campaign 'nightly' begins: record with --campaign nightly\n"
    assert said(tmp_path, "list") == "nightly: open\n"
    assert said(tmp_path, "end", "nightly") == "campaign 'nightly' has ended: its key is overwritten and removed\n"
    assert said(tmp_path, "list") == ""


def test_campaign_in_use_is_listed_as_that_and_ends_by_force(tmp_path: Path) -> None:
    with Campaigns(tmp_path).opened("nightly"):
        assert said(tmp_path, "list").startswith("nightly: in use")
        with pytest.raises(UnusableInput, match="in use"):
            said(tmp_path, "end", "nightly")
        said(tmp_path, "end", "nightly", "--force")
    assert said(tmp_path, "list") == ""


@pytest.mark.parametrize("arguments", [["start"], ["end"], ["list", "nightly"]])
def test_action_with_too_much_or_too_little_is_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="give 'list' alone, or 'start' or 'end' with the name of a campaign"):
        said(tmp_path, *arguments)
