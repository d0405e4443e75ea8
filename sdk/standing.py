"""What stands for a callable object that is no function, and is called in its place; all else of it is the object's own."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, cast

_OWN = ("__wrapped__", "_again")


class _Standing:
    """Stands for an object. A class of each one's own says what its call does."""

    __slots__ = ("__weakref__", *_OWN)

    def __init__(self, target: Any, again: Callable[[Any], Any]) -> None:
        object.__setattr__(self, "__wrapped__", target)
        object.__setattr__(self, "_again", again)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return bool(self.__wrapped__ == getattr(other, "__wrapped__", other))

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = self.__wrapped__.__reduce_ex__(protocol)
        return reduced if isinstance(reduced, str) else (self._again, (self.__wrapped__,))


class _StandingInClass(_Standing):
    """Stands for an object that is bound to an instance where a class has it, such as a cached method."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        target = self.__wrapped__
        bound = type(target).__get__(target, instance, owner)
        if bound is target:
            return self
        if isinstance(bound, MethodType) and bound.__func__ is target:
            return MethodType(cast(Callable[..., Any], self), instance)
        return self._again(bound)


def standing_for(target: Any, call: Callable[..., Any], again: Callable[[Any], Any]) -> Any:
    """Return what stands for an object and does `call`; `again` makes the same of another object, such as a copy."""
    base = _StandingInClass if hasattr(type(target), "__get__") else _Standing
    own = {
        "__slots__": (),
        "__call__": staticmethod(call),
        "__class__": property(lambda _: type(target)),
        "__doc__": property(lambda _: target.__doc__),
        "__module__": property(lambda _: target.__module__),
    }
    return type(type(target).__name__, (base,), own)(target, again)
