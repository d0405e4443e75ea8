"""Every reference file in every format that can be written: read back, it has the same calls, and the same blocks.

Blocks are compared where the format has them, at its usual size or at the coarser one in which the source is known: the
tree of all prompts must have the same shape, whatever the order of calls that ran at once and the names of blocks. Of
what a later turn adds `mooncake-delta` has no blocks that others could have.
"""

from __future__ import annotations

import functools
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from test_prefix_law_on_the_wire import data_files

from rotoscope.traces import Call, UnusableInput
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.block_ids import block_ids
from rotoscope.traces.formats.convert import Target, convert
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import LabelledTrace, open_traces
from rotoscope.traces.formats.registry import FORMATS, Format

Lengths = tuple[int, int]
ROOT = -1
PART_ROWS = 200
WRITABLE = [known for known in FORMATS if known.write_trace or known.write_corpus]
DATA = data_files("weka/trace_*.json", "trtllm/*.trace.json", "trtllm/synthetic/*.trace.json", "mooncake/*.jsonl")


@pytest.mark.parametrize("known", WRITABLE, ids=lambda known: known.name)
@pytest.mark.parametrize("name", DATA)
def test_a_converted_file_has_the_same_calls_and_blocks(
    name: str, known: Format, data_dir: Path, tmp_path: Path
) -> None:
    traces = opened(data_dir / name)
    source = [one.member for one in traces]
    granularity = max(member.trace.prefix_granularity for member in source)
    size = None if known.block_size is None else max(known.block_size, granularity)
    target = Target(path=str(tmp_path / "out"), format=known, block_size=size)
    if known.name == "mooncake" and not has_times(source):
        with pytest.raises(UnusableInput, match="has no time: write mooncake-sessions"):
            convert(traces, target, Fidelity())
        return

    convert(traces, target, Fidelity())

    back = [one.member for one in open_traces([tmp_path / "out"])]
    assert lengths(back) == lengths(source)
    if size is not None and known.name != "mooncake-delta" and not (known.name == "vcr" and has_models(source)):
        assert shapes(back, known, size) == shapes(source, known, size)


@functools.lru_cache(maxsize=1)  # a file is followed by itself, for the next format
def opened(path: Path) -> list[LabelledTrace]:
    if path.suffix != ".jsonl" or os.environ.get("ROTOSCOPE_WHOLE_DATA"):
        return open_traces([path])
    with TemporaryDirectory() as folder:
        part = Path(folder, "part.jsonl")
        part.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:PART_ROWS]))
        return open_traces([part])


def has_times(members: Sequence[Member]) -> bool:
    return all(call.at_ms is not None for member in members for call in member.trace.calls())


def has_models(members: Sequence[Member]) -> bool:
    """Say whether there are several, which vllm-vcr's records do not tell apart."""
    return len({call.domain for member in members for call in member.trace.calls()}) > 1


def lengths(members: Sequence[Member]) -> Counter[Lengths]:
    return Counter(lengths_of(call) for member in members for call in member.trace.calls())


def lengths_of(call: Call) -> Lengths:
    """Return prompt and output; TensorRT-LLM's format has no answer without a token."""
    return call.prompt_tokens, max(call.completion_tokens, 1)


def shapes(members: Sequence[Member], known: Format, size: int) -> Counter[bytes]:
    """Return the shape of the tree of blocks, in which order and names do not matter; one a trace where files are."""
    groups = [[member] for member in members] if known.write_trace else [members]
    return Counter(shape(group, size) for group in groups)


def shape(members: Sequence[Member], size: int) -> bytes:
    """Return a digest of a tree whose nodes hold the lengths of the prompts that end there."""
    parents: dict[int, int] = {}
    ends: dict[int, list[Lengths]] = defaultdict(list)
    for member, ids in zip(members, block_ids(members, size, with_partial=False), strict=True):
        for call, row in zip(member.trace.calls(), ids, strict=True):
            parents.update(zip(row, (ROOT, *row), strict=False))
            ends[row[-1] if row else ROOT].append(lengths_of(call))
    children: dict[int, list[bytes]] = defaultdict(list)
    for node in sorted(parents, reverse=True):  # a block has a greater number than the one before it
        children[parents[node]].append(digest(ends[node], children[node]))
    return digest(ends[ROOT], children[ROOT])


def digest(ends: Sequence[Lengths], children: Sequence[bytes]) -> bytes:
    return blake2b(repr((sorted(ends), sorted(children))).encode(), digest_size=16).digest()
