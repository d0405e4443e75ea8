from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.traces.canary_forms import SHORTEST_FORM_BYTES, different, forms


@given(st.text(min_size=9), st.binary(max_size=7), st.binary(max_size=7))
def test_base64_is_known_at_every_alignment(text: str, before: bytes, after: bytes) -> None:
    inside = base64.b64encode(before + text.encode("utf-8", "replace") + after)
    patterns = [form.pattern for form in forms(text, {}) if form.name == "base64"]

    assert any(pattern in inside for pattern in patterns)


@given(st.text(min_size=4))
def test_only_the_text_itself_may_be_short(text: str) -> None:
    plain = {"plain", "lower case", "upper case"}

    assert all(len(form.pattern) >= SHORTEST_FORM_BYTES for form in forms(text, {}) if form.name not in plain)


def test_a_form_that_equals_another_is_looked_for_once() -> None:
    patterns = [form.pattern for form in different(forms("plain text", {}))]

    assert len(patterns) == len(set(patterns))
    assert next(iter(different(forms("plain text", {})))).name == "plain"


def test_the_first_and_last_token_may_differ_within_a_longer_text() -> None:
    patterns = {form.pattern for form in forms("irrelevant", {"toy": lambda text: [111, 222, 333, 444, 555, 666]})}

    assert b"222,333,444,555" in patterns
    assert b"111,222,333,444,555,666" not in patterns


def test_few_tokens_are_not_looked_for() -> None:
    names = {form.name for form in forms("irrelevant", {"toy": lambda text: [1, 2, 3]})}

    assert "token ids of toy" not in names
