"""When clients are patched, and that patches go as they came."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest
from sdk_worlds import Ear, heard_by

from rotoscope.sdk.transports.patching import listen

FAKE = """
class SyncByteStream: ...
class AsyncByteStream: ...
class HTTPTransport:
    def handle_request(self, request): ...
class AsyncHTTPTransport:
    async def handle_async_request(self, request): ...
"""


def test_a_client_is_patched_once_and_gets_its_own_back() -> None:
    original = httpx2.HTTPTransport.handle_request
    with heard_by(Ear()):
        patched = httpx2.HTTPTransport.handle_request
        listen(Ear())

        assert patched is not original
        assert httpx2.HTTPTransport.handle_request is patched
    assert httpx2.HTTPTransport.handle_request is original


def test_what_somebody_else_has_put_around_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with heard_by(Ear()):
        patched = httpx2.HTTPTransport.handle_request

        def theirs(*args: Any) -> Any:
            return patched(*args)

        monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", theirs)
    assert httpx2.HTTPTransport.handle_request is theirs
    monkeypatch.undo()
    with heard_by(Ear()):
        pass
    assert not hasattr(httpx2.HTTPTransport.handle_request, "_rotoscope_is_around")


def run_with(folder: Path, module: str, code: str) -> str:
    """Run code where a module is httpx."""
    (folder / "httpx.py").write_text(module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip()


IMPORTED_LATER = """
import sys
from rotoscope.sdk.transports.patching import listen
listen(lambda request: None)
assert "httpx" not in sys.modules
import httpx
print(hasattr(httpx.HTTPTransport.handle_request, "_rotoscope_is_around"), "exec_module" in vars(httpx.__loader__))
"""


def test_a_client_that_is_imported_later_is_patched_then(tmp_path: Path) -> None:
    assert run_with(tmp_path, FAKE, IMPORTED_LATER) == "True False"


def test_a_client_of_another_kind_is_left_alone_and_told_of(tmp_path: Path) -> None:
    code = "import logging, sys; logging.basicConfig(stream=sys.stdout)" + IMPORTED_LATER.partition("print")[0]

    assert "calls by httpx are not recorded" in run_with(tmp_path, "class HTTPTransport: ...", code)


def test_nothing_is_imported_to_be_patched() -> None:
    code = "import sys; from rotoscope.sdk.transports.patching import listen; listen(lambda request: None)\n"
    code += "print({'httpx', 'httpx2', 'requests', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_a_client_that_is_being_loaded_is_left_until_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    half = ModuleType("httpx")
    half.__spec__ = ModuleSpec("httpx", None)
    monkeypatch.setattr(half.__spec__, "_initializing", True, raising=False)
    monkeypatch.setitem(sys.modules, "httpx", half)
    with heard_by(Ear()):
        assert caplog.messages == []
    half.__spec__._initializing = False  # type: ignore[attr-defined]
    with heard_by(Ear()):
        assert caplog.messages == ["calls by httpx are not recorded: its version is not known (AttributeError)"]
