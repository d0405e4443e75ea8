import pytest

from examples.agentic_rag.tools import FOUND_LIMIT, library, read, search


def test_a_search_names_documents_once_each_and_they_can_be_read() -> None:
    found = search("lens of a lighthouse")

    assert found[0] == "lighthouses"
    assert len(found) == len(set(found)) <= FOUND_LIMIT
    assert read("lighthouses").startswith("Lighthouses\n\nA lighthouse tells ships")


def test_words_that_stand_nowhere_find_nothing() -> None:
    assert search("xylophone") == []
    assert search("") == []


def test_a_document_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no document 'atlantis'"):
        read("atlantis")


def test_the_library_is_loaded_once() -> None:
    assert library() is library()
