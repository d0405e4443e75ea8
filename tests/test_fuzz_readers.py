from __future__ import annotations

from pathlib import Path

import pytest
from format_samples import SAMPLES

from rotoscope.traces.formats.recognise import read_source
from rotoscope.traces.formats.registry import Format, all_formats
from rotoscope.traces.formats.source import Source
from scripts.fuzz import readers


def test_every_format_has_samples_and_they_are_what_they_are_called() -> None:
    found = {
        name: {read_source(Source.of_bytes(data))[0].name for data in samples} for name, samples in SAMPLES.items()
    }

    assert found == {known.name: {known.name} for known in all_formats()}


@pytest.mark.parametrize("known", all_formats(), ids=lambda known: known.name)
def test_damaged_files_give_traces_or_one_clear_error(known: Format, tmp_path: Path) -> None:
    assert readers.fuzz(known, 300, 1, tmp_path) == 0


def test_a_reader_that_breaks_is_found_and_its_input_kept(tmp_path: Path) -> None:
    def broken(source: Source, fidelity: object) -> list[object]:
        raise KeyError("x")

    known = Format(name="weka", title="", told_by="", looks_like=lambda head: False, read=broken, suffix="")  # type: ignore[arg-type]

    assert readers.fuzz(known, 20, 1, tmp_path) > 0
    assert list(tmp_path.iterdir())
