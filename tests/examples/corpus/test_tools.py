import pytest

from examples.corpus.tools import LIBRARY, PASSAGES, read, search


def test_passages_stand_below_the_names_by_which_they_can_be_read() -> None:
    found = search("How is longitude found?")

    assert found.startswith("[longitude-and-chronometers] Longitude and the chronometer\n")
    assert len(found.split("\n\n")) == PASSAGES


def test_where_nothing_is_found_that_is_told() -> None:
    assert search("zebra") == "nothing was found; try other words"


def test_a_document_is_read_as_a_whole() -> None:
    assert read("tides") == f"[tides] Tides\n\n{LIBRARY.document('tides').text}"
    with pytest.raises(ValueError, match="there is no document"):
        read("zebras")
