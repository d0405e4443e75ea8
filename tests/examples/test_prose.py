from random import Random

from examples.corpus.library import terms
from examples.corpus.tools import read, search
from examples.prose import bears_on, found, new_words, sentences, telling, thoughts


def test_what_the_tools_returned_is_told_apart_by_document() -> None:
    returned = found(f"{search('flywheel rim')}\n\n{read('flywheels')}")

    assert "flywheels" in returned
    assert returned["flywheels"].count("A flywheel stores energy in its turning.") == 2
    assert all("[" not in text.partition("\n")[0] for text in returned.values())


def test_text_without_documents_tells_of_none() -> None:
    assert found("nothing was found; try other words") == {}
    assert found("") == {}


def test_sentences_end_where_they_should_and_stand_once() -> None:
    text = "It holds 0.5 grams in a litre. Is that\nenough? Nobody asked them. Is that enough? No. It is so, e.g. here."

    assert sentences(text) == ["It holds 0.5 grams in a litre.", "It is so, e.g. here."]
    assert sentences("It holds four grams. It holds four grams.") == ["It holds four grams."]


def test_the_sentences_that_have_most_in_common_are_kept_in_order() -> None:
    texts = {
        "a": "The sea is salt and deep. The land is dry and high.",
        "b": "Salt of the sea tastes of salt. Birds fly over it.",
    }

    assert telling(texts, "salt sea", 2) == [
        ("a", "The sea is salt and deep."),
        ("b", "Salt of the sea tastes of salt."),
    ]


def test_of_a_question_of_many_words_more_than_one_has_to_be_shared() -> None:
    assert bears_on("A bell.", "bells")
    assert not bears_on("A bell.", "bells towers ropes bronze clay fire")
    assert bears_on("A bell in a tower.", "bells towers ropes bronze clay fire")


def test_new_words_are_of_sentences_that_bear_on_the_question_and_are_not_known() -> None:
    text = "A flywheel turns without friction in a vacuum. Elephants remember everything."

    drawn = new_words(Random(1), text, "flywheel", terms("vacuums without"), count=9)

    assert set(drawn) == {"flywheel", "friction"}


def test_thoughts_are_as_many_as_asked_for_and_quote_what_there_is() -> None:
    thought = thoughts(Random(1), ["Salt is white.", "Coal is black."], 5)

    assert "Salt is white." in thought
    assert len(thought.split(". ")) > 6
    assert thoughts(Random(1), [], 0)
