from __future__ import annotations

from rotoscope.traces import Prefix
from rotoscope.traces.formats.message_forest import Boundary, MessageForest


def ask(forest: MessageForest, end: Boundary, prompt: int, completion: int = 0, reasoning: int = 0) -> Boundary:
    return forest.call(end, prompt_tokens=prompt, completion_tokens=completion, reasoning_tokens=reasoning)


def test_an_empty_message_is_no_place_to_part() -> None:
    forest = MessageForest()
    first = forest.message(forest.root, 10)

    assert forest.message(first, 0) is first


def test_streams_that_part_after_a_message_share_what_is_before() -> None:
    forest = MessageForest()
    first = forest.message(forest.root, 10)
    ask(forest, forest.message(first, 5), 15)
    ask(forest, forest.message(first, 7), 17)

    assert forest.prefixes() == [Prefix(None, 0, "messages"), Prefix(0, 10, "messages")]


def test_sizes_are_stretched_between_places_that_are_known() -> None:
    forest = MessageForest()
    first = forest.message(forest.root, 10)
    second = forest.message(first, 20)
    ask(forest, forest.message(second, 10), 80)
    ask(forest, forest.message(first, 1), 30)
    ask(forest, forest.message(second, 1), 70)

    assert forest.prefixes()[1:] == [
        Prefix(0, 20, "messages", low=0, high=30),
        Prefix(0, 60, "messages", low=0, high=70),
    ]


def test_a_measured_place_bounds_those_around_it() -> None:
    forest = MessageForest()
    first = forest.message(forest.root, 10)
    second = forest.message(first, 10)
    third = forest.message(second, 10)
    ask(forest, forest.message(third, 10), 100)
    ask(forest, second, 40)
    ask(forest, forest.message(third, 1), 80)

    assert forest.prefixes()[1:] == [Prefix(0, 40, "messages"), Prefix(0, 70, "messages", low=40, high=80)]


def test_the_first_prompt_that_ends_at_a_place_measures_it() -> None:
    forest = MessageForest()
    first = forest.message(forest.root, 10)
    ask(forest, forest.message(first, 20), 80)
    ask(forest, first, 30)
    ask(forest, first, 40)

    assert forest.prefixes()[1:] == [Prefix(0, 30, "messages"), Prefix(0, 30, "messages")]


def test_a_place_after_an_answer_is_as_uncertain_as_the_answer() -> None:
    forest = MessageForest()
    answer = ask(forest, forest.message(forest.root, 10), 10, 20)
    first = forest.message(answer, 5)
    ask(forest, forest.message(first, 5), 50)
    ask(forest, forest.message(first, 1), 45)

    assert forest.prefixes()[1:] == [
        Prefix(0, 30, "messages", low=10),
        Prefix(1, 40, "messages", low=10, high=45),
    ]


def test_sizes_that_add_up_behind_an_uncertain_place_leave_what_is_between_as_uncertain() -> None:
    forest = MessageForest()
    answer = ask(forest, forest.message(forest.root, 10), 10, 20)
    first = forest.message(answer, 5)
    ask(forest, forest.message(first, 5), 40)
    ask(forest, forest.message(first, 1), 36)

    assert forest.prefixes()[2] == Prefix(1, 35, "messages", low=15)


def test_prompts_that_hold_one_answer_may_share_what_its_message_takes_beside_the_output() -> None:
    forest = MessageForest()
    answer = ask(forest, forest.message(forest.root, 10), 10, 20)
    ask(forest, forest.message(answer, 5), 38)
    ask(forest, forest.message(answer, 6), 50)

    assert forest.prefixes()[1:] == [
        Prefix(0, 30, "messages", low=10),
        Prefix(0, 30, "messages", low=10, high=33),
    ]


def test_a_prompt_that_ends_with_an_answer_measures_where_that_ends_for_those_that_follow() -> None:
    forest = MessageForest()
    answer = ask(forest, forest.message(forest.root, 10), 10, 20)
    ask(forest, answer, 32)
    ask(forest, answer, 32)
    ask(forest, forest.message(answer, 6), 50)

    assert forest.prefixes()[1:] == [
        Prefix(0, 30, "messages", low=10),
        Prefix(1, 32, "messages"),
        Prefix(1, 32, "messages"),
    ]


def test_a_measure_that_contradicts_the_prompt_around_it_is_not_used() -> None:
    forest = MessageForest()
    first = forest.message(forest.root, 10)
    ask(forest, forest.message(first, 10), 20)
    ask(forest, first, 50)

    assert forest.prefixes()[1] == Prefix(0, 10, "messages")


def test_an_unseen_message_takes_what_the_sizes_leave() -> None:
    forest = MessageForest()
    unseen = forest.unseen(forest.root)
    end = forest.message(unseen, 10)
    ask(forest, end, 50, 5)
    ask(forest, forest.message(unseen, 7), 47)

    assert forest.prefixes() == [
        Prefix(None, 0, "opaque", high=50),
        Prefix(0, 40, "messages", low=0, high=47),
    ]
    assert unseen.size == 40


def test_named_messages_are_shared_as_long_as_all_before_them_are_named() -> None:
    forest = MessageForest()
    a = forest.shared_message(forest.root, "a", 10)
    b = forest.shared_message(a, "b", 5)
    late = forest.shared_message(forest.message(a, 3), "b", 5)

    assert [forest.shared_id(end) for end in (a, b, late)] == ["s0", "s1", None]
    assert forest.shared_message(forest.root, "a", 10) is a


def test_named_messages_of_more_tokens_than_can_be_are_not_shared() -> None:
    forest = MessageForest()
    most = forest.shared_message(forest.root, "a", 2**31 - 1)

    assert forest.shared_id(most) == "s0"
    assert forest.shared_id(forest.shared_message(most, "b", 1)) is None


def test_a_shorter_render_is_the_beginning_of_the_longest() -> None:
    forest = MessageForest()
    ask(forest, forest.shared_message(forest.root, "a", 10), 10)
    ask(forest, forest.shared_message(forest.root, "a", 25), 25)

    assert [prefix.tokens for prefix in forest.prefixes()] == [10, 25]
    assert [shared.tokens for shared in forest.shared_prefixes()] == [25]
    assert forest.shared_identity() == ["None/0/a"]
