"""Run NVIDIA Dynamo's frontend with its mocker as the only worker: an engine's scheduler and cache, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.processes import free_port, running

BLOCK_SIZE = 16
BLOCKS = 1024
MODEL = "tiny"
_LOOPBACK = ("DYN_TCP_RPC_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_EVENT_PLANE_HOST", "DYN_SYSTEM_HOST")
_SYSTEM_PORTS = range(20_000, 32_768)
"""Dynamo 1.6.1 reads DYN_SYSTEM_PORT as a signed number of 16 bits."""


@dataclass(frozen=True)
class Mocker:
    """Where the two processes answer."""

    url: str
    worker_metrics: str
    """URL of the worker's own metrics; the frontend's are at `url`."""


@contextmanager
def dynamo_mocker(python: Path, model: Path, folder: Path) -> Iterator[Mocker]:
    """Start both with the environment's `python` and the model folder; `folder` takes state and log."""
    port, worker_port = free_port(), free_port(_SYSTEM_PORTS)
    url = f"http://127.0.0.1:{port}"
    frontend = [str(python), "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port)]
    worker = [str(python), "-m", "dynamo.mocker", "--model-path", str(model), "--model-name", MODEL]
    worker += ["--block-size", str(BLOCK_SIZE), "--num-gpu-blocks-override", str(BLOCKS), "--max-num-seqs", "32"]
    variables = {
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_FILE_KV": str(folder / "discovery"),
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_ENABLE_ANTHROPIC_API": "true",
        "DYN_SYSTEM_PORT": str(worker_port),
        "HF_HUB_OFFLINE": "1",
        **dict.fromkeys(_LOOPBACK, "127.0.0.1"),
    }
    with running(
        [["env", "-u", "DYN_SYSTEM_PORT", *frontend], worker], url, folder / "log", model=MODEL, variables=variables
    ):
        yield Mocker(url, f"http://127.0.0.1:{worker_port}/metrics")
