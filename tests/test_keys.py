from __future__ import annotations

import pytest

from rotoscope.keys import api_key_in
from rotoscope.traces import UnusableInput


def test_a_key_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", " k ")

    assert api_key_in("THE_KEY") == "k"
    assert api_key_in(None) is None


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_variable_that_holds_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("THE_KEY", value)

    with pytest.raises(UnusableInput, match="'THE_KEY' is not set"):
        api_key_in("THE_KEY")
