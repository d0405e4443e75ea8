"""What a recording says in each dialect, against the prompts that a real engine says it computed.

llama-server tells the text of its last prompt (`/slots`, with LLAMA_SERVER_SLOTS_DEBUG), special tokens included; its own
tokenizer makes the token ids of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
from engine.dialect_client import DIALECTS
from engine.llama_server import ONE_SLOT, llama_server
from engine.processes import post
from engine.test_recording_bounds import common

from rotoscope.traces import Call, Forest, Trace, load
from rotoscope.traces.bounds import PromptBounds

CLIENT = Path(__file__).parent / "dialect_client.py"
AROUND_TOKENS = 24
"""What a template may write around a message, tokens that merge at its borders included."""


@dataclass(frozen=True)
class Recorded:
    trace: Trace
    calls: list[Call]
    prompts: list[list[int]]
    """As the server computed them, in the order of the requests."""
    texts: list[list[str]]
    """What each was made of."""
    url: str

    def tools(self, call: int) -> str:
        """Return the tools of a prompt."""
        return self.texts[call][1]


@pytest.fixture(scope="module")
def server(real_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("engine") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLAMA_SERVER_SLOTS_DEBUG", "1")
        with llama_server(real_model, [*ONE_SLOT, "--jinja", "--slots"], log, context=8192) as url:
            yield url


def recorded(dialect: str, url: str, folder: Path, *options: str) -> Recorded:
    seen = folder / "seen.json"
    command = [sys.executable, "-m", "rotoscope", "record", "--upstream", url, "-o", str(folder / "traces"), *options]
    subprocess.run([*command, "--", sys.executable, str(CLIENT), dialect, url, str(seen)], check=True, timeout=300)
    (path,) = (folder / "traces").glob("*.trace.json")
    trace, told = load(path), json.loads(seen.read_text())
    prompts = [tokens(url, one["prompt"]) for one in told]
    return Recorded(trace, list(trace.calls()), prompts, [one["texts"] for one in told], url)


def tokens(url: str, text: str) -> list[int]:
    asked = {"content": text, "add_special": False, "parse_special": True}
    return [int(token) for token in post(f"{url}/tokenize", asked)["tokens"]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_measured_prompts_share_what_the_server_computed(dialect: str, server: str, tmp_path: Path) -> None:
    one = recorded(dialect, server, tmp_path, "--measure")
    forest = Forest.of_trace(one.trace)

    assert [call.prompt_tokens for call in one.calls] == [len(ids) for ids in one.prompts]
    for a, b in combinations(range(len(one.calls)), 2):
        found = min(forest.common_prefix(a, b), len(one.prompts[a]), len(one.prompts[b]))
        assert found == common(one.prompts[a], one.prompts[b]), (a, b)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_by_usage_alone_the_error_is_at_most_the_message_in_which_prompts_part_and_is_marked(
    dialect: str, server: str, tmp_path: Path
) -> None:
    one = recorded(dialect, server, tmp_path, "--tokenizer", "none")
    forest, bounds = Forest.of_trace(one.trace), PromptBounds(one.trace)
    errors = []

    assert [call.prompt_tokens for call in one.calls] == [len(ids) for ids in one.prompts]
    for a, b in combinations(range(len(one.calls)), 2):
        true = common(one.prompts[a], one.prompts[b])
        found = min(forest.common_prefix(a, b), len(one.prompts[a]), len(one.prompts[b]))
        low, high = bounds.common_prefix(a, b)
        assert low <= true <= high, (a, b)
        if one.tools(a) == one.tools(b):  # nobody knows where a template puts tools, or whether; the bounds hold
            errors.append(abs(found - true))
            assert errors[-1] <= parting_tokens(one, a, b) + AROUND_TOKENS, (a, b, found, true)
    print(
        f"\n{dialect}: {len(errors)} pairs by usage alone, error median {sorted(errors)[len(errors) // 2]}, max {max(errors)}"
    )


def parting_tokens(one: Recorded, a: int, b: int) -> int:
    """Return the size of the longer of the two messages in which prompts part, 0 where one goes on behind the other."""
    texts = zip(one.texts[a], one.texts[b], strict=False)
    return next((max(len(tokens(one.url, text)) for text in pair) for pair in texts if pair[0] != pair[1]), 0)
