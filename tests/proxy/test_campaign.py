from __future__ import annotations

from pathlib import Path

import pytest

from rotoscope.proxy.campaign import chosen_campaign
from rotoscope.traces.errors import UnusableInput


def test_campaign_that_begins_is_told_once_and_with_the_way_to_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"ROTOSCOPE_CAMPAIGNS": str(tmp_path)}
    with chosen_campaign("nightly", environment) as first, chosen_campaign("nightly", environment) as second:
        assert first is not None
        assert second is not None
        assert first.key == second.key

    said = "rotoscope: a campaign begins: 'rotoscope campaign end NAME' destroys its key\n"
    assert capsys.readouterr().err == said


def test_no_name_is_no_campaign(tmp_path: Path) -> None:
    with chosen_campaign(None, {"ROTOSCOPE_CAMPAIGNS": str(tmp_path / "none")}) as campaign:
        assert campaign is None
    assert list(tmp_path.iterdir()) == []


def test_name_that_is_no_plain_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput), chosen_campaign("../x", {"ROTOSCOPE_CAMPAIGNS": str(tmp_path)}):
        pass
