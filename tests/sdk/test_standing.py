from __future__ import annotations

import functools
import pickle
from typing import Any

from rotoscope.sdk.standing import standing_for

heard: list[Any] = []


def again(target: Any) -> Any:
    def call(*args: Any) -> Any:
        heard.append(args)
        return target(*args)

    return standing_for(target, call, again)


class Adder:
    """Adds."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, number: int) -> int:
        return self.number + number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adder) and other.number == self.number

    def __hash__(self) -> int:
        return self.number


@again
@functools.cache
def cached(number: int) -> int:
    return number


def test_call_is_heard_and_all_else_is_the_object_s_own() -> None:
    adder = Adder(1)
    standing = again(adder)

    heard.clear()
    assert standing(2) == 3
    assert heard == [(2,)]
    standing.number = 5
    assert adder.number == 5
    assert isinstance(standing, Adder)
    assert (standing.__doc__, repr(standing), hash(standing)) == ("Adds.", repr(adder), hash(adder))
    assert standing == adder == standing
    del standing.number
    assert not hasattr(adder, "number")


def test_cached_function_keeps_its_cache() -> None:
    cached.cache_clear()

    assert (cached(1), cached(1)) == (1, 1)

    assert cached.cache_info().hits == 1
    assert cached.__name__ == "cached"
    assert cached.__wrapped__.__wrapped__(3) == 3


def test_cached_method_is_bound_and_a_callable_object_in_a_class_is_not() -> None:
    class Owner:
        method = again(functools.cache(lambda self: self))
        adder = again(Adder(1))

    owner = Owner()
    heard.clear()

    assert owner.method() is owner
    assert owner.adder(1) == 2
    assert heard == [(owner,), (1,)]


def test_global_is_pickled_by_its_name_and_an_object_by_what_it_holds() -> None:
    assert pickle.loads(pickle.dumps(cached)) is cached

    copied = pickle.loads(pickle.dumps(again(Adder(4))))
    heard.clear()
    assert copied(1) == 5
    assert heard == [(1,)]


def test_a_class_gives_what_it_has_itself() -> None:
    class Adds:
        add = again(functools.cache(lambda _, number: number + 1))

    assert Adds.add is vars(Adds)["add"]
