"""Put something around methods of HTTP clients: at once where a client is loaded, else when it comes to be.

The patches stay harmless when nobody listens, so that they may stay where somebody else has put something around them.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from rotoscope.sdk.account import warn
from rotoscope.sdk.outgoing import Listener

Around = Callable[..., Any]
"""Makes the replacement of a function."""

CLIENTS = {
    "httpx": "rotoscope.sdk.transports.httpx",
    "httpx2": "rotoscope.sdk.transports.httpx",
    "requests": "rotoscope.sdk.transports.requests",
    "aiohttp": "rotoscope.sdk.transports.aiohttp",
}
"""The modules that are patched when they are loaded, and what patches them."""

_MARK = "_rotoscope_is_around"

_listener: Listener | None = None
_patches: list[tuple[Any, str, Any]] = []


def listening() -> Listener | None:
    """Return who listens."""
    return _listener


def listen(listener: Listener | None) -> None:
    """Let a listener hear the requests of this process; it replaces the one before. None takes the patches off."""
    global _listener
    _listener = listener
    if listener is None:
        _take_off()
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for name in CLIENTS:
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            _patch(module)


def put_around(owner: Any, name: str, around: Around) -> None:
    """Replace a function of a class by what `around` makes of it, once; raise AttributeError where it has none."""
    original = getattr(owner, name)
    if hasattr(original, _MARK):
        return
    replacement = functools.wraps(original)(around(original))
    setattr(replacement, _MARK, True)
    setattr(owner, name, replacement)
    _patches.append((owner, name, original))


def _take_off() -> None:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for patch in list(_patches):
        owner, name, original = patch
        if getattr(getattr(owner, name), "__wrapped__", None) is original:
            setattr(owner, name, original)
            _patches.remove(patch)


def _patch(module: ModuleType) -> None:
    """Patch a client that is loaded; where it is of another kind than is known here, it goes on unheard."""
    known = CLIENTS[module.__name__]
    try:
        importlib.import_module(known).patch(module)
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        warn("calls by %s are not recorded: its version is not known (%s)", module.__name__, type(error).__name__)


class _Finder:
    """Finds clients as they are found without it, and patches them once they are loaded.

    It is no `MetaPathFinder` by name, as the module of those loads much.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if fullname not in CLIENTS:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                _patch_when_loaded(spec)
                return spec
        return None


def _patch_when_loaded(spec: ModuleSpec) -> None:
    loader: Any = spec.loader
    load = getattr(loader, "exec_module", None)
    if load is None:
        return

    def load_and_patch(module: ModuleType) -> None:
        if module.__spec__ is spec:  # a loader may be that of other modules too
            vars(loader).pop("exec_module", None)
        load(module)
        if _listener is not None and module.__name__ in CLIENTS:
            _patch(module)

    try:
        loader.exec_module = load_and_patch
    except AttributeError:
        warn("calls by %s are not recorded: import it before rotoscope.instrument()", spec.name)


_finder = _Finder()
