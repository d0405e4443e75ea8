from __future__ import annotations

from pathlib import Path

import pytest

from rotoscope.traces.canary_tokens import offline_encodings


def test_an_encoding_that_is_not_on_this_machine_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    assert offline_encodings() == {}
