"""`trace_agent` and `trace_tool`: what an agent is and what its tools are, told from inside.

The outermost agent is a run. An agent inside another one stands on a line of its own, which is joined when it returns;
the first agent inside a branch is that branch's own work. A tool that makes calls or begins agents itself is no tool in
the trace, but has a span all the same.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import Token
from typing import Any, TypeVar, overload

from rotoscope.recorder.marks import ToolMark
from rotoscope.sdk import forks, recordings
from rotoscope.sdk.conventions import EXECUTE_TOOL, INVOKE_AGENT
from rotoscope.sdk.opened import Opener
from rotoscope.sdk.recordings import open_agents
from rotoscope.sdk.scopes import Line, Scope, clock, current_scope, enter, leave, new_name
from rotoscope.sdk.spans import Span, begin_span, counts
from rotoscope.sdk.wrapping import wrapped

T = TypeVar("T", bound="Callable[..., Any] | classmethod[Any, Any, Any]")

METHODS = ("__call__", "run", "arun", "invoke", "execute", "forward")
"""What is traced of a class, the first that it defines itself."""


@overload
def trace_agent(target: T, /) -> T: ...
@overload
def trace_agent(*, name: str | None = None, method: str | None = None) -> Callable[[T], T]: ...
def trace_agent(target: Any = None, /, *, name: str | None = None, method: str | None = None) -> Any:
    """Mark a function, or the `method` of a class, as an agent; its spans are called `name`, else as it is qualified."""
    return _decorated(target, name, method, _agent_opener)


@overload
def trace_tool(target: T, /) -> T: ...
@overload
def trace_tool(*, name: str | None = None, method: str | None = None) -> Callable[[T], T]: ...
def trace_tool(target: Any = None, /, *, name: str | None = None, method: str | None = None) -> Any:
    """Mark a function, or the `method` of a class, as a tool; the last part of `name` is what the model asks for."""
    return _decorated(target, name, method, _tool_opener)


def _decorated(target: Any, name: str | None, method: str | None, opener_of: Callable[[str], Opener]) -> Any:
    if target is None:
        return functools.partial(_decorated, name=name, method=method, opener_of=opener_of)
    if isinstance(target, staticmethod | classmethod):
        return type(target)(_decorated(target.__func__, name, method, opener_of))
    if isinstance(target, type):
        return _decorated_class(target, name, method, opener_of)
    return wrapped(target, opener_of(str(name or _name_of(target))))


def _name_of(target: Any) -> str:
    while isinstance(target, functools.partial):
        target = target.func
    return str(getattr(target, "__qualname__", type(target).__qualname__))


def _decorated_class(target: type, name: str | None, method: str | None, opener_of: Callable[[str], Opener]) -> type:
    found = method or next((x for x in METHODS if x in vars(target)), None)
    traced = None if found is None else inspect.getattr_static(target, found, None)
    if found is None or traced is None:
        looked_for = method or ", ".join(METHODS)
        raise TypeError(f"{target.__qualname__} defines no {looked_for}: name what runs it by method=")
    setattr(target, found, _decorated(traced, name or target.__qualname__, None, opener_of))
    return target


class _Inside:
    """What code of a function is inside of while it runs; between its steps it is kept as the function left it."""

    __slots__ = ("_scope", "_span", "_token")

    def __init__(self, scope: Scope | None, span: Span | None) -> None:
        self._scope, self._span = scope, span
        self._token: Token[Scope | None] | None = None

    def attach(self) -> None:
        if self._scope is not None:
            self._token = enter(self._scope)
        if self._span is not None:
            self._span.attach()

    def detach(self) -> None:
        if self._span is not None:
            self._span.detach()
        if self._token is not None:
            self._scope = current_scope()
            leave(self._token)
            self._token = None


class _Agent(_Inside):
    """What is around one run of an agent."""

    __slots__ = ("_forks", "_line", "_region")

    def __init__(self, scope: Scope | None, span: Span | None, *, ends: Line | None, region: str = "") -> None:
        super().__init__(scope, span)
        self._line, self._region, self._forks = ends, region, forks.depth
        if ends is not None:
            open_agents.add(self)

    def end(self, error: BaseException | None) -> None:
        if self._forks != forks.depth:  # forked within the agent, which goes on in the process that began it
            return
        if self._span is not None:
            self._span.end(error)
        if self._line is None:
            return
        open_agents.discard(self)
        if self._line.parent is None:
            self._line.run.end()
        else:
            self._line.parent.join(self._region)


def _open_agent(name: str) -> _Agent:
    span = begin_span(INVOKE_AGENT, name)
    try:
        scope, ends, region = _stand()
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt, and has its span all the same
        counts.fail(error)
        return _Agent(None, span, ends=None)
    return _Agent(scope, span, ends=ends, region=region)


def _stand() -> tuple[Scope | None, Line | None, str]:
    """Give an agent its place: what it is inside of, the line that ends with it if any does, and that one's region."""
    above = current_scope() or recordings.scope_of_parent()
    if above is None:
        run = recordings.begin_run()
        line = None if run is None else Line(run)
        return None if line is None else Scope(line), line, ""
    if above.is_branch:
        above.is_branch = False
        return Scope(above.line, above), None, ""
    above.called()
    region = new_name()
    line = above.line.fork(region, clock())
    return Scope(line, above), line, region


def _agent_opener(name: str) -> Opener:
    return functools.partial(_open_agent, name)


class _Tool(_Inside):
    """What is around one run of a tool."""

    __slots__ = ("_forks", "_name", "_start_s", "_started")

    def __init__(self, name: str, scope: Scope | None, span: Span | None) -> None:
        self._name, self._scope, self._started, self._span, self._token = name, scope, scope, span, None
        self._forks, self._start_s = forks.depth, clock()

    def end(self, error: BaseException | None) -> None:
        if self._forks != forks.depth:
            return
        end_s, scope = clock(), self._started
        if self._span is not None:
            self._span.end(error)
        if scope is not None and not scope.has_calls:
            scope.line.tell(ToolMark(self._name, scope.line.name, self._start_s, end_s))


def _open_tool(name: str) -> _Tool:
    above = current_scope()
    return _Tool(name, None if above is None else Scope(above.line, above), begin_span(EXECUTE_TOOL, name))


def _tool_opener(name: str) -> Opener:
    """Return what begins a tool of a name, of which the model knows the last part."""
    return functools.partial(_open_tool, name.rpartition(".")[2])


recordings.be_led()
