from __future__ import annotations

from chat_wire import assistant, result, system, tool, user

from rotoscope.recorder.canonical import tools_part
from rotoscope.recorder.counting import WaitingTexts
from rotoscope.recorder.hashing import KeyedHash
from rotoscope.recorder.parts import TOGETHER, KnownParts

DOMAIN = b"d" * 16


def known_parts(key: bytes = b"k" * 32) -> KnownParts:
    return KnownParts(KeyedHash(key))


def test_a_growing_conversation_adds_only_what_is_new() -> None:
    parts = known_parts()
    messages = [user("a"), assistant("b")]
    first = parts.behind_messages(DOMAIN, messages)
    seen = len(parts.take_fresh())
    second = parts.behind_messages(DOMAIN, [*messages, user("c")])

    assert (first, seen) == (1, 2)
    assert [(part.part, part.parent, part.role) for part in parts.take_fresh()] == [(second, first, "user")]


def test_one_message_behind_two_histories_is_two_parts() -> None:
    parts = known_parts()

    assert parts.behind_messages(DOMAIN, [user("a"), user("c")]) != parts.behind_messages(
        DOMAIN, [user("b"), user("c")]
    )


def test_prompts_of_two_domains_share_no_part() -> None:
    parts = known_parts()

    assert parts.behind_messages(DOMAIN, [user("a")]) != parts.behind_messages(b"e" * 16, [user("a")])


def test_the_same_message_written_otherwise_is_one_part() -> None:
    parts = known_parts()
    plain = parts.behind_messages(DOMAIN, [user("a")])

    assert parts.behind_messages(DOMAIN, [{"content": [{"type": "text", "text": "a"}], "role": "user"}]) == plain


def test_a_result_is_no_message_of_the_user() -> None:
    parts = known_parts()

    assert parts.behind_messages(DOMAIN, [result("1", "a")]) != parts.behind_messages(DOMAIN, [user("a")])


def test_tools_stand_behind_a_part() -> None:
    parts = known_parts()
    start = parts.behind_messages(DOMAIN, [user("a")])

    assert parts.behind(start, tools_part([tool("x")], {})) != parts.behind(start, tools_part([tool("y")], {}))
    assert parts.behind(start, tools_part([tool("x")], {})) == 1


def test_digests_depend_on_the_key_only() -> None:
    digests = []
    for key in (b"k" * 32, b"k" * 32, b"l" * 32):
        parts = known_parts(key)
        parts.behind_messages(DOMAIN, [user("a")])
        digests.append(parts.take_fresh()[0].digest)

    assert digests[0] == digests[1] != digests[2]


def test_no_text_is_kept() -> None:
    parts = known_parts()
    parts.behind_messages(DOMAIN, [user("CANARY")])

    assert "CANARY" not in repr(parts) + repr(vars(parts))


def test_texts_of_new_parts_wait_to_be_counted_and_are_forgotten_with_the_key() -> None:
    waiting = WaitingTexts()
    parts = KnownParts(KeyedHash(b"k" * 32), waiting)
    messages = [user("a"), assistant("b", thinking="t")]
    parts.behind_messages(DOMAIN, messages)
    parts.behind_messages(DOMAIN, [*messages, user("c")])

    assert [(x.part, x.text, x.reasoning) for x in waiting.take()] == [(0, "a", ""), (1, "b", "t"), (2, "c", "")]
    parts.behind_messages(DOMAIN, [user("d")])
    parts.forget()
    assert waiting.take() == []


def test_parts_that_are_moved_are_those_that_would_be_sent_there() -> None:
    moved, sent = known_parts(), known_parts()
    start = moved.behind_messages(DOMAIN, [system("old")])
    head = moved.behind_messages(start, [user("a"), assistant("b")])
    moved.take_fresh()
    end = moved.moved(head, since=start, before=moved.behind_messages(DOMAIN, [system("new")]))
    sent.behind_messages(DOMAIN, [system("new"), user("a"), assistant("b")])

    digests = [[part.digest for part in parts.take_fresh()] for parts in (moved, sent)]
    assert digests[0] == digests[1]
    assert isinstance(end, int)
    assert moved.moved(head, since=start, before=moved.behind_messages(DOMAIN, [system("new")])) == end
    assert moved.take_fresh() == []


def history(parts: KnownParts, start: int, turns: int) -> int:
    head = start
    for turn in range(turns):
        head = parts.behind_messages(head, [user(f"q{turn}"), assistant(f"a{turn}")])
    return head


def test_a_long_history_behind_other_instructions_costs_little_but_what_is_new() -> None:
    parts = known_parts()
    start = parts.behind_messages(DOMAIN, [system("0")])
    head: int | bytes = history(parts, start, 200)
    parts.take_fresh()
    costs = []
    for turn in range(1, 40):
        other = parts.behind_messages(DOMAIN, [system(f"{turn}")])
        head = parts.moved(int(head), since=start, before=other)
        start, head = other, parts.behind_messages(head, [user(f"new {turn}"), assistant(f"said {turn}")])
        costs.append(len(parts.take_fresh()))

    assert max(costs) < 2 * TOGETHER
    assert min(costs) > 2 + 400 // TOGETHER


def test_a_long_history_is_the_same_parts_whenever_it_goes_behind_the_same_instructions() -> None:
    parts = known_parts()
    start = parts.behind_messages(DOMAIN, [system("a")])
    head = history(parts, start, 100)
    other = parts.behind_messages(DOMAIN, [system("b")])
    there = parts.moved(head, since=start, before=other)
    grown = parts.behind_messages(there, [user("x")])
    back = parts.moved(grown, since=other, before=start)
    parts.take_fresh()
    again = parts.behind_messages(back, [user("y")])
    parts.moved(again, since=start, before=other)

    # Of the history that is there under both, nothing is new.
    assert [part.role for part in parts.take_fresh()] == ["user", "user"]


def test_parts_that_stand_for_many_have_their_size() -> None:
    parts = known_parts()
    start = parts.behind_messages(DOMAIN, [system("a")])
    head = parts.behind_messages(start, [user("1234")] * 100)
    parts.take_fresh()
    parts.moved(head, since=start, before=parts.behind_messages(DOMAIN, [system("b")]))
    _, first, *others = parts.take_fresh()

    assert (first.role, first.text_bytes) == ("opaque", 4 * TOGETHER)
    assert [part.text_bytes for part in others] == [4] * (100 - TOGETHER)


def test_parts_are_moved_from_the_start_of_a_prompt_and_to_it() -> None:
    parts = known_parts()
    head = parts.behind_messages(DOMAIN, [user("a"), assistant("b")])
    behind = parts.moved(head, since=None, before=parts.behind_messages(DOMAIN, [system("new")]))

    assert behind == parts.behind_messages(DOMAIN, [system("new"), user("a"), assistant("b")])
    assert parts.moved(head, since=None, before=DOMAIN) == head
    assert parts.moved(head, since=head, before=DOMAIN) == DOMAIN


def test_moved_parts_are_masked_as_those_that_are_sent() -> None:
    moved, sent = known_parts(), known_parts()
    dated = [user("Today's date is 2026-01-01.\nGo"), assistant("b")]
    head = moved.behind_messages(moved.behind_messages(DOMAIN, [system("old")]), dated)
    moved.take_fresh()
    moved.moved(head, since=0, before=moved.behind_messages(DOMAIN, [system("on 2026-01-02")]))
    sent.behind_messages(DOMAIN, [system("on 2026-01-02"), *dated])

    masked = [[part.masked for part in parts.take_fresh()] for parts in (moved, sent)]
    assert masked[0] == masked[1]
    assert None not in masked[0]
