from __future__ import annotations

from math import inf
from typing import Any

from chat_wire import Wire, assistant, user

from rotoscope.recorder.part_sizes import PartSizes
from rotoscope.recorder.part_tree import PartTree
from rotoscope.traces.journal import PartCounted, PartSeen

TEXT = "word " * 400
"""2,000 bytes."""


def sizes_of(*messages: dict[str, object], counts: dict[int, int] | None = None, **fields: Any) -> PartSizes:
    """Return the sizes of the parts of one prompt, of which some were counted."""
    wire = Wire()
    wire.ask(messages, **fields)
    tree = PartTree([record for record in wire.written().records if isinstance(record, PartSeen)])
    counted = {part: PartCounted(part=part, tokens=tokens) for part, tokens in (counts or {}).items()}
    return PartSizes(tree, counted, "words" if counts else None)


def image() -> dict[str, object]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}


def test_without_counts_a_token_is_four_bytes_and_an_estimate() -> None:
    sizes = sizes_of(user(TEXT), assistant("", thinking="x" * 80))

    assert (sizes.text(0), sizes.text(1), sizes.reasoning(1)) == (500, 0, 20)
    assert (sizes.source, sizes.source_up_to(0)) == ("estimate", "estimate")


def test_counted_texts_have_their_counts_and_say_by_what() -> None:
    sizes = sizes_of(user(TEXT), user("x"), counts={0: 400, 1: 1})

    assert (sizes.text(0), sizes.text(1), sizes.up_to(1)) == (400, 1, 401)
    assert sizes.source_up_to(1) == "tokenizer:words"


def test_a_prompt_with_a_text_that_was_not_counted_is_an_estimate_from_there_on() -> None:
    sizes = sizes_of(user(TEXT), user("x"), user("y"), counts={0: 400, 2: 1})

    assert [sizes.source_up_to(part) for part in range(3)] == ["tokenizer:words", "estimate", "estimate"]
    assert [sizes.source_of(part) for part in range(3)] == ["tokenizer:words", "estimate", "tokenizer:words"]
    assert [sizes.uncounted_up_to(part) for part in range(3)] == [0, 1, 1]


def test_texts_that_were_not_counted_have_the_ratio_of_those_that_were() -> None:
    assert sizes_of(user(TEXT), user("x" * 1000), counts={0: 400}).text(1) == 200


def test_a_little_counted_text_gives_no_ratio() -> None:
    assert sizes_of(user("hello"), user("x" * 1000), counts={0: 5}).text(1) == 250


def test_a_text_that_was_counted_in_part_is_an_estimate_of_that_size() -> None:
    tree = PartTree(sizes_tree(user(TEXT)))
    sizes = PartSizes(tree, {0: PartCounted(part=0, tokens=321, is_estimate=True)}, "words")

    assert (sizes.text(0), sizes.source_of(0)) == (321, "estimate")


def test_an_empty_message_needs_no_count() -> None:
    assert sizes_of(user(""), user("x"), counts={1: 1}).source_up_to(1) == "tokenizer:words"


def test_nobody_knows_how_many_tokens_an_image_is() -> None:
    sizes = sizes_of(image(), user("x"), counts={1: 1})

    assert sizes.uncounted_up_to(1) == inf
    assert sizes.source_up_to(1) == "estimate"


def test_token_ids_are_as_many_as_they_are() -> None:
    part = PartSeen(part=0, role="text", digest="0" * 32, borders="", text_bytes=40, loose_bytes=40, most_tokens=10)
    sizes = PartSizes(PartTree([part]), {}, "words")

    assert (sizes.text(0), sizes.is_counted(0)) == (10, True)


def test_tools_are_among_the_messages_that_a_template_renders() -> None:
    sizes = sizes_of(user("x"), tools=[{"type": "function", "function": {"name": "f"}}])

    assert sizes.messages_up_to(1) == 2


def sizes_tree(*messages: dict[str, object]) -> list[PartSeen]:
    wire = Wire()
    wire.ask(messages)
    return [record for record in wire.written().records if isinstance(record, PartSeen)]
