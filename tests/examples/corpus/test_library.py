from pathlib import Path

import pytest

from examples.corpus import Document, Library
from examples.corpus.library import terms


@pytest.fixture
def library() -> Library:
    return Library(
        [
            Document(
                "bells", "Bells", "A bell is cast from bronze.\n\nIts note depends on its shape, and on its weight."
            ),
            Document("boats", "Boats", "A boat floats.\n\nBronze was used for the screws of boats, bronze for nails."),
            Document("clay", "Clay", "Clay is fired in a kiln."),
        ]
    )


def test_what_matches_best_comes_first(library: Library) -> None:
    found = library.search("Which bells are of bronze?")

    assert [passage.text.split()[0] for passage in found] == ["A", "Bronze", "Its"]
    assert found[0].document.name == "bells"
    assert found[0].score > found[1].score > found[2].score > 0


def test_a_rare_word_says_more_than_a_common_one(library: Library) -> None:
    assert library.search("bronze kiln")[0].document.name == "clay"


def test_no_more_is_found_than_was_asked_for(library: Library) -> None:
    assert len(library.search("bronze boat bell kiln", limit=2)) == 2


@pytest.mark.parametrize("query", ["", "the of and", "zebra", "!"])
def test_nothing_in_common_finds_nothing(library: Library, query: str) -> None:
    assert library.search(query) == []


def test_a_document_is_read_by_its_name(library: Library) -> None:
    assert library.document("clay").text == "Clay is fired in a kiln."
    with pytest.raises(ValueError, match="there is no document 'stone'"):
        library.document("stone")


def test_documents_are_loaded_with_title_and_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "old-wells.md").write_text("# Old wells\n\nA well\nis dug.\n\nOr bored.\n")

    (document,) = Library.load(tmp_path).documents

    assert (document.name, document.title, document.paragraphs) == (
        "old-wells",
        "Old wells",
        ["A well\nis dug.", "Or bored."],
    )


def test_plurals_and_case_do_not_matter() -> None:
    assert terms("The Bells of a gas-works, and batteries of glass") == ["bell", "gas", "work", "battery", "glass"]


@pytest.fixture(scope="module")
def shipped() -> Library:
    return Library.load()


def test_the_documents_that_come_along_are_texts_of_some_length(shipped: Library) -> None:
    words = [len(document.text.split()) for document in shipped.documents]

    assert len(shipped.documents) >= 30
    assert 200 <= min(words) <= max(words) <= 800
    assert all(len(document.paragraphs) > 2 and document.title for document in shipped.documents)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Why does a lead-acid battery lose capacity when it is left empty?", "lead-acid-batteries"),
        ("How did ships find their longitude before wireless time signals?", "longitude-and-chronometers"),
        ("Which parasite survives chlorine in drinking water?", "chlorination"),
        ("How long must a can be heated against botulism?", "canning"),
    ],
)
def test_a_question_finds_its_document_among_the_first(shipped: Library, query: str, name: str) -> None:
    assert name in [passage.document.name for passage in shipped.search(query, limit=3)]
