from __future__ import annotations

from rotoscope.recorder.dialects.choices import finish_reason


def test_a_reason_holds_until_another_is_told() -> None:
    assert finish_reason("max_tokens", "unknown") == "length"
    assert finish_reason(None, "length") == "length"
    assert finish_reason("whatever", "length") == "unknown"
