"""Run vLLM on the processor: its real scheduler and paged cache behind its real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.processes import free_port, running

BLOCK_SIZE = 32
"""The smallest that vLLM's attention on processors takes."""
BLOCKS = 512
MODEL = "tiny"
_PATIENCE_S = 240.0
_VARIABLES = {
    "VLLM_TARGET_DEVICE": "cpu",  # without it the repackaged wheel finds no device
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@contextmanager
def vllm_server(python: Path, model: Path, log: Path) -> Iterator[str]:
    """Start the server with the environment's `python` and the model folder, and yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--enforce-eager", "--max-model-len", "8192", "--max-num-seqs", "32", "--enable-prompt-tokens-details"]
    command += ["--block-size", str(BLOCK_SIZE), "--num-gpu-blocks-override", str(BLOCKS)]
    command += ["--gpu-memory-utilization", "0.2"]
    with running([command], url, log, model=MODEL, variables=_VARIABLES, patience_s=_PATIENCE_S):
        yield url
