"""What a recording says about prefixes, against the prompts that a real engine's own template and tokenizer make."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from engine.llama_server import ONE_SLOT, llama_server
from engine.processes import post

from rotoscope.traces import Forest, Trace, load
from rotoscope.traces.bounds import PromptBounds

CLIENT = Path(__file__).parent / "conversation_client.py"

TEMPLATES_WITH_TOOLS = {
    "tools in the system block": (
        "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}"
        "{% if loop.first and tools %}\nTools: {{ tools | tojson }}{% endif %}"
        "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}</{{ m.role }}>\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    ),
    "tools before the last message of the user": (
        "{% set ns = namespace(last=-1) %}"
        "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
        "{% for m in messages %}{% if tools and loop.index0 == ns.last %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}"
        "<{{ m.role }}>{{ m.content or '' }}"
        "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}</{{ m.role }}>\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    ),
    "thinking in the generation prompt only": (
        "{% if tools %}{{ tools | tojson(indent=4) }}\n{% endif %}"
        "{% for m in messages %}<{{ m.role }}>{{ (m.content or '') | trim }}"
        "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}</{{ m.role }}>\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant><think>\n\n</think>\n\n{% endif %}"
    ),
}


@dataclass(frozen=True)
class Recorded:
    trace: Trace
    prompts: Sequence[Sequence[int]]
    """The true prompts, in the order of the requests."""


def recorded(url: str, folder: Path, *options: str) -> Recorded:
    """Record the client in front of a server, then ask the server what the prompts were."""
    bodies = folder / "bodies.json"
    command = [sys.executable, "-m", "rotoscope", "record", "--upstream", url, "-o", str(folder / "traces"), *options]
    subprocess.run([*command, "--", sys.executable, str(CLIENT), str(bodies)], check=True, timeout=300)
    (path,) = (folder / "traces").glob("*.trace.json")
    return Recorded(load(path), [prompt_ids(url, body) for body in json.loads(bodies.read_text())])


def prompt_ids(url: str, body: dict[str, Any]) -> list[int]:
    rendered = post(f"{url}/apply-template", body)["prompt"]
    tokens = post(f"{url}/tokenize", {"content": rendered, "add_special": True, "parse_special": True})["tokens"]
    return [int(token) for token in tokens]


def common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@dataclass(frozen=True)
class Bounds:
    low: int
    n: int
    high: int


def pairs(one: Recorded) -> Iterator[tuple[int, Bounds]]:
    """Yield, for every pair of calls, the true common prefix of their prompts and what the trace says."""
    calls = list(one.trace.calls())
    assert len(calls) == len(one.prompts)
    bounds, forest = PromptBounds(one.trace), Forest.of_trace(one.trace)
    for (a, ids_a), (b, ids_b) in combinations(zip(calls, one.prompts, strict=True), 2):
        low, high = bounds.common_prefix(a.call, b.call)
        n = min(forest.common_prefix(a.call, b.call), len(ids_a), len(ids_b))
        yield common(ids_a, ids_b), Bounds(low, n, high)


def check_lengths(one: Recorded) -> None:
    assert [call.prompt_tokens for call in one.trace.calls()] == [len(ids) for ids in one.prompts]


def check_bounds(one: Recorded, name: str) -> None:
    found = list(pairs(one))
    widths = sorted(bounds.high - bounds.low for _, bounds in found)
    errors = sorted(abs(bounds.n - true) for true, bounds in found)
    middle = len(found) // 2
    print(
        f"\n{name}: {len(found)} pairs; width of the bounds median {widths[middle]}, max {widths[-1]} tokens; "
        f"error of n median {errors[middle]}, max {errors[-1]} tokens"
    )
    outside = [(true, bounds) for true, bounds in found if not bounds.low <= true <= bounds.high]
    assert outside == []


def check_exact(one: Recorded) -> None:
    assert [bounds.n for _, bounds in pairs(one)] == [true for true, _ in pairs(one)]
    assert all(bounds.low == bounds.n for _, bounds in pairs(one))


@pytest.fixture(scope="module")
def real_server(real_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("engine") / "log"
    with llama_server(real_model, [*ONE_SLOT, "--jinja"], log, context=8192) as url:
        yield url


def test_usage_alone_bounds_every_pair_of_prompts_of_a_real_model(real_server: str, tmp_path: Path) -> None:
    one = recorded(real_server, tmp_path)

    check_lengths(one)
    check_bounds(one, "SmolLM2, by usage alone")


def test_measuring_makes_every_pair_exact_on_a_real_model(real_server: str, tmp_path: Path) -> None:
    one = recorded(real_server, tmp_path, "--measure")

    check_lengths(one)
    check_exact(one)


@pytest.mark.parametrize("name", TEMPLATES_WITH_TOOLS)
def test_bounds_hold_wherever_a_template_puts_the_tools(name: str, tiny_model: Path, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATES_WITH_TOOLS[name])
    options = [*ONE_SLOT, "--jinja", "--chat-template-file", str(template)]
    with llama_server(tiny_model, options, tmp_path / "log") as url:
        by_usage = recorded(url, _made(tmp_path / "usage"))
        measured = recorded(url, _made(tmp_path / "measured"), "--measure")

    check_lengths(by_usage)
    check_bounds(by_usage, name)
    check_lengths(measured)
    check_exact(measured)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
