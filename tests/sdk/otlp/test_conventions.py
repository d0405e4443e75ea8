from __future__ import annotations

from dataclasses import fields
from typing import get_args

from rotoscope.sdk.otlp.conventions import CARRIED_BY, EVENT, EVENT_TYPE, EVENT_TYPES, attribute_of
from rotoscope.traces.model import Call, ToolCall, TraceEvent


def test_every_kind_of_event_has_a_name_of_its_own() -> None:
    assert set(EVENT_TYPES) == set(get_args(TraceEvent))
    assert len(set(EVENT_TYPES.values())) == len(EVENT_TYPES)


def test_what_the_conventions_name_is_a_field_of_the_model() -> None:
    for kind, carried in CARRIED_BY.items():
        assert carried.keys() <= {field.name for field in fields(kind)}


def test_no_field_of_an_event_takes_the_place_of_another_attribute() -> None:
    for kind in EVENT_TYPES:
        carried = [attribute_of(kind, field.name) for field in fields(kind)]
        assert len({*carried, EVENT, EVENT_TYPE}) == len(carried) + 2


def test_a_field_without_a_name_in_the_conventions_is_called_as_in_the_trace() -> None:
    assert attribute_of(Call, "prefix.tokens") == "rotoscope.prefix.tokens"
    assert attribute_of(Call, "prompt_tokens") == "gen_ai.usage.input_tokens"
    assert attribute_of(ToolCall, "at_ms") == "rotoscope.at_ms"
