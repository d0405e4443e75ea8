"""The published Mooncake files there and back through formats that hold a record a line: every chain, every length.

By default a part of each is taken; ROTOSCOPE_WHOLE_DATA=1 takes them whole (`make test-data`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chain_structure import chains, in_order

from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.registry import format_named
from rotoscope.traces.formats.source import Source

BLOCK = 512
PART_ROWS = 1500


@pytest.mark.parametrize(("form", "with_partial"), [("dynamo", True), ("vcr", False)])
@pytest.mark.parametrize("name", ["conversation_trace", "synthetic_trace"])
def test_all_rows_of_a_mooncake_file_come_back(name: str, form: str, with_partial: bool, data_dir: Path) -> None:
    lines = (data_dir / "mooncake" / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    lines = lines if os.environ.get("ROTOSCOPE_WHOLE_DATA") else lines[:PART_ROWS]
    members = read_source(Source.of_bytes(b"".join(lines)))[1]
    written = format_named(form)
    assert written.write_corpus is not None

    pieces = written.write_corpus(members, Fidelity(), block_size=BLOCK)
    found = written.read(Source.of_bytes(b"".join(pieces), "x"), Fidelity())

    given, back = in_order(members), in_order(found)
    assert [(call.prompt_tokens, call.completion_tokens) for _, call in back] == [
        (call.prompt_tokens, call.completion_tokens) for _, call in given
    ]
    before = chains(members, [place for place, _ in given], BLOCK, with_partial=with_partial)
    assert chains(found, [place for place, _ in back], BLOCK, with_partial=with_partial) == before
    starts = [[member.start_ms for member in corpus] for corpus in (members, found)]
    assert starts[0] == starts[1]
