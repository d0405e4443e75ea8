from __future__ import annotations

from typing import Any

from chat_wire import Wire, assistant, result, system, tool, tool_call, user
from hypothesis import given
from hypothesis import strategies as st
from token_worlds import common

from rotoscope.recorder.part_tree import PartTree, common_length
from rotoscope.traces.journal import CallOpened, PartSeen


def tree_of(*prompts: list[dict[str, Any]], **fields: Any) -> tuple[PartTree, list[int]]:
    """Return the tree of some prompts, and the last part of each."""
    wire = Wire()
    for messages in prompts:
        wire.ask(messages, **fields)
    records = wire.written().records
    parts = [record for record in records if isinstance(record, PartSeen)]
    return PartTree(parts), [record.head for record in records if isinstance(record, CallOpened)]


def test_a_prompt_is_a_path_with_its_tools_behind_the_system_messages() -> None:
    tree, (head,) = tree_of([system("a"), user("b"), assistant("c"), user("d")], tools=[tool("x")])

    assert [tree[part].role for part in tree.path(head)] == ["system", "tools", "user", "assistant", "user"]
    assert [tree[part].role for part in tree.messages(head)] == ["system", "user", "assistant", "user"]


def test_a_part_knows_what_is_before_it() -> None:
    tree, (head,) = tree_of(
        [system("a"), user("b"), assistant("c", thinking="d"), user("e"), assistant("f")], tools=[tool("x")]
    )
    node = tree.node(head)

    assert (node.count, node.leading, node.tools, node.last_user, node.first_thinking) == (6, 2, 1, 4, 3)


def test_a_prompt_without_any_of_it_knows_that_too() -> None:
    tree, (head,) = tree_of([assistant("a"), assistant("b")])
    node = tree.node(head)

    assert (node.count, node.leading, node.tools, node.last_user, node.first_thinking) == (2, 0, -1, -1, 2)


def test_a_later_system_message_is_not_a_leading_one() -> None:
    tree, (head,) = tree_of([system("a"), user("b"), system("c")])

    assert tree.node(head).leading == 1


def test_message_ids_are_equal_where_messages_are_alike_but_for_ids_spaces_and_tools() -> None:
    call, other = tool_call("1"), tool_call("2")
    tree, (a, b) = tree_of(
        [user("x"), assistant(calls=[call]), result("1", "a b")],
        [user("x "), assistant(calls=[other]), result("2", "a  b")],
    )
    (tools_tree, (c,)) = tree_of([user("x"), assistant(calls=[call]), result("1", "a b")], tools=[tool("x")])

    assert tree.message_ids(a) == tree.message_ids(b)
    assert len(tools_tree.message_ids(c)) == 3


def test_text_ids_do_not_tell_roles_apart() -> None:
    tree, (a, b) = tree_of([user("x"), user("y")], [system("x"), user("y")])

    assert tree.node(a).text_id == tree.node(b).text_id
    assert tree.node(a).message_id != tree.node(b).message_id
    assert tree.text_parents[tree.node(a).text_id] != -1


def test_shared_bytes_are_bounded_from_above() -> None:
    same = "word " * 100
    tree, (a, b, c) = tree_of([user(same + "a")], [user(same + "b")], [user("other")])

    assert len(same) <= tree.shared_bytes_at_most(a, b) <= len(same) + 128
    assert tree.shared_bytes_at_most(a, c) <= len("other")


@given(a=st.lists(st.integers(0, 1), max_size=6), b=st.lists(st.integers(0, 1), max_size=6))
def test_paths_are_compared_by_halves(a: list[int], b: list[int]) -> None:
    def path(steps: list[int]) -> tuple[int, ...]:
        return tuple(hash(tuple(steps[: index + 1])) for index in range(len(steps)))

    assert common_length(path(a), path(b)) == common(tuple(a), tuple(b))


def test_what_only_the_server_has_is_found_in_a_prompt() -> None:
    seen = [
        PartSeen(part=0, role="system", digest="0" * 32, borders="0" * 16, text_bytes=1, loose_bytes=1, most_tokens=9),
        PartSeen(
            part=1,
            parent=0,
            role="opaque",
            digest="1" * 32,
            borders="1" * 16,
            text_bytes=0,
            loose_bytes=1,
            most_tokens=9,
        ),
        PartSeen(
            part=2,
            parent=1,
            role="opaque",
            digest="2" * 32,
            borders="2" * 16,
            text_bytes=0,
            loose_bytes=1,
            most_tokens=9,
        ),
    ]
    tree = PartTree(seen)

    assert [tree.node(part).unseen for part in range(3)] == [-1, 1, 1]
    assert [tree.node(part).leading for part in range(3)] == [1, 1, 1]


def test_instructions_and_tools_of_a_prompt_are_told_apart_from_its_messages() -> None:
    tree, (head,) = tree_of([system("a"), system("b"), user("c")], tools=[tool("x")])
    bare, (alone,) = tree_of([user("c")])

    assert tree.leading_messages(head) == 2
    assert tree.instructions_id(head) == tree.message_ids(head)[1]
    assert tree.tools_of(head) == tree.path(head)[2]
    assert (bare.leading_messages(alone), bare.instructions_id(alone), bare.tools_of(alone)) == (0, -1, None)
