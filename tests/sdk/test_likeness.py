from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import pytest

from rotoscope.sdk.likeness import made_like

TEMPLATE = """
def call($parameters):
    return r_seen(r_function($arguments))
"""


def made(function: Any) -> Any:
    assert isinstance(function, FunctionType)
    return made_like(function, TEMPLATE, {"r_seen": lambda result: ("seen", result)})


def everything(a: int, /, b: int = 2, *more: int, c: int, d: int = 4, **others: int) -> Any:
    return a, b, more, c, d, others


def test_every_kind_of_parameter_is_handed_on_as_it_came() -> None:
    assert made(everything)(1, c=3) == ("seen", everything(1, c=3))
    assert made(everything)(1, 5, 6, 7, c=3, d=8, a=9, e=10) == ("seen", everything(1, 5, 6, 7, c=3, d=8, a=9, e=10))


def test_signature_is_that_of_the_function_without_following_it() -> None:
    parameters = inspect.signature(made(everything)).parameters.values()

    assert [(x.name, x.kind, x.default) for x in parameters] == [
        (x.name, x.kind, x.default) for x in inspect.signature(everything).parameters.values()
    ]


def test_wrong_arguments_are_refused_in_the_same_words() -> None:
    said = []
    for function in (everything, made(everything)):
        with pytest.raises(TypeError) as refused:
            function()  # type: ignore[call-arg]
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_defaults_are_the_objects_of_the_function() -> None:
    def growing(seen: list[int] = []) -> list[int]:  # noqa: B006 - that is what is tested
        seen.append(len(seen))
        return seen

    assert made(growing)() == ("seen", [0])
    assert growing() == [0, 1]


def test_parameter_with_a_name_of_the_template_s_own_is_handed_on() -> None:
    assert made(lambda r_function: r_function)(r_function=3) == ("seen", 3)
    assert made(lambda function, call: (function, call))(1, 2) == ("seen", (1, 2))


def test_private_names_of_a_class_are_handed_on() -> None:
    class Owner:
        def method(self, *, __named: int = 5) -> Any:
            return __named

    assert made(Owner.method)(Owner()) == ("seen", 5)
