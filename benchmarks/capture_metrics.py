"""Capture what the engines say at /metrics before, during and after requests whose cached tokens are known.

Writes ENGINE-before.txt, ENGINE-during.txt (one request decodes), ENGINE-after.txt and ENGINE-requests.json, the usage
of each request in between as its answer told it. Only families in KEPT are kept; of Dynamo, what the frontend and its
worker say stands in one file.

Run: PYTHONPATH=tests python benchmarks/capture_metrics.py tests/data/metrics --vllm .venv-vllm --dynamo .venv-dynamo
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from engine.processes import get, post
from engine.real_engines import MissingEngine, Server, real_engines

MODELS = Path("build/engine")
LONG_ANSWER = 400
KEPT = {
    "vllm": re.compile(
        r"vllm:(prefix_cache_\w+|prompt_tokens\w*|generation_tokens\w*|num_preemptions\w*|num_requests_(running|waiting)"
        r"|kv_cache_usage_perc|cache_config_info|request_success\w*|iteration_tokens_total|time_to_first_token_seconds)"
    ),
    "llamacpp": re.compile(r"llamacpp:\w+"),
    "dynamo": re.compile(
        r"dynamo_frontend_(cached_tokens|input_sequence_tokens|output_tokens_total|model_kv_cache_block_size"
        r"|model_total_kv_blocks|requests_total|inflight_requests|queued_requests|time_to_first_token_seconds)"
        r"|vllm:(num_preemptions_total|num_requests_(running|waiting)|kv_cache_usage_perc|gpu_cache_usage_perc)"
    ),
}
"""Names of families, by engine."""


def main() -> int:
    arguments = parse()
    for engine in real_engines(vllm=arguments.vllm, dynamo=arguments.dynamo, models=MODELS):
        if isinstance(engine, MissingEngine):
            print(f"{engine.name}: left out, {engine.reason}", file=sys.stderr)
            continue
        with TemporaryDirectory() as state, engine.start(Path(state)) as server:
            usages = capture(engine.name, server, arguments.folder)
        prompt, cached = (sum(usage[key] for usage in usages) for key in ("prompt_tokens", "cached_tokens"))
        print(f"{engine.name} {engine.version}: {len(usages)} requests, {cached} of {prompt} prompt tokens cached")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vllm", type=Path, default=Path(".venv-vllm"))
    parser.add_argument("--dynamo", type=Path, default=Path(".venv-dynamo"))
    return parser.parse_args()


def capture(name: str, server: Server, folder: Path) -> list[dict[str, int]]:
    """Write the files of an engine and return the usage of its requests."""

    def write(moment: str) -> None:
        text = "".join(kept(get(url), KEPT[name]) for url in server.metrics)
        (folder / f"{name}-{moment}.txt").write_text(text)

    settle()
    write("before")
    usages = [completed(server, prompt, 8) for prompt in prompts()]
    with decoding(server, usages):
        write("during")
    settle()
    write("after")
    lines = ",\n".join(f"  {json.dumps(usage)}" for usage in usages)
    (folder / f"{name}-requests.json").write_text(f"[\n{lines}\n]\n")
    return usages


def settle() -> None:
    """Wait for counters that are written after the answer."""
    time.sleep(2)


def prompts() -> list[list[int]]:
    """Return prompts of ids: a first one, the same, grown, another one, and the beginning of the first going on anew."""
    ids = np.random.default_rng(0).integers(1000, 30_000, 4000).tolist()
    first, more, other = ids[:2000], ids[2000:2500], ids[2500:3200]
    return [first, first, first + more, other, first[:1000] + other[:500]]


def kept(text: str, names: re.Pattern[str]) -> str:
    """Return the families whose name matches as a whole, with their samples."""
    keep, lines = False, []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            keep = names.fullmatch(line.split()[2]) is not None
        if keep:
            lines.append(f"{line}\n")
    return "".join(lines)


def completed(server: Server, prompt: list[int], tokens: int) -> dict[str, int]:
    """Send a prompt and return its usage."""
    return known(post(f"{server.url}/v1/completions", body(server, prompt, tokens))["usage"])


@contextmanager
def decoding(server: Server, usages: list[dict[str, int]]) -> Iterator[None]:
    """Stay inside while one request decodes, and append its usage at the end."""
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    data = json.dumps(body(server, prompts()[0], LONG_ANSWER) | streamed).encode()
    request = urllib.request.Request(f"{server.url}/v1/completions", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        response.readline()
        yield
        events = [line[6:] for line in response if line.startswith(b"data: {")]
    usages.append(known(next(usage for event in reversed(events) if (usage := json.loads(event).get("usage")))))


def body(server: Server, prompt: list[int], tokens: int) -> dict[str, Any]:
    lengths = {"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, "temperature": 0}
    return {"model": server.model or "any", "prompt": prompt} | lengths


def known(usage: dict[str, Any]) -> dict[str, int]:
    """Return prompt, cached and completion tokens of a usage."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return {
        "prompt_tokens": usage["prompt_tokens"],
        "cached_tokens": cached,
        "completion_tokens": usage["completion_tokens"],
    }


if __name__ == "__main__":
    sys.exit(main())
