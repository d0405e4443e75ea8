from __future__ import annotations

from dataclasses import replace

import orjson
from chat_wire import Wire, assistant, system, tool, usage, user

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.shared_prefixes import IDS
from rotoscope.traces import SharedPrefix, SharedPrefixLink, dumps, loads
from rotoscope.traces.journal import Journal, PartSeen
from rotoscope.traces.model import MAX_COUNT

KEY = b"k" * 32
LONG = "You are an agent who does all things well. " * 40


def shared(wire: Wire) -> tuple[SharedPrefix, ...]:
    return wire.close().shared_prefixes


def test_system_messages_and_tools_are_one_shared_prefix() -> None:
    wire = Wire()
    for text in ("a", "b"):
        wire.call([system("x"), system("y"), user(text)], assistant("c"), counts=usage(300, 5), tools=[tool("t")])
    trace = wire.close()

    assert [(prefix.id, prefix.kind, prefix.prefix) for prefix in trace.shared_prefixes] == [("s0", "system", None)]
    assert [(call.prefix.of, call.prefix.tokens) for call in trace.calls()] == [
        ("s0", trace.shared_prefixes[0].tokens)
    ] * 2


def test_tools_alone_are_a_shared_prefix_too() -> None:
    wire = Wire()
    wire.call([user("a")], assistant("c"), counts=usage(300, 5), tools=[tool("t")])

    assert [prefix.id for prefix in shared(wire)] == ["s0"]


def test_without_system_messages_and_tools_there_is_none() -> None:
    wire = Wire()
    wire.call([user("a")], assistant("c"), counts=usage(300, 5))

    assert shared(wire) == ()


def test_a_prefix_that_begins_like_another_says_how_far() -> None:
    wire = Wire()
    wire.call([system(LONG + "It is Monday." + LONG), user("a")], assistant("c"), counts=usage(1000, 5))
    wire.call([system(LONG + "It is Friday." + LONG), user("a")], assistant("c"), counts=usage(1000, 5))
    first, second = shared(wire)
    link = second.prefix

    assert link is not None
    assert (link.of, link.least) == ("s0", 0)
    assert 0.4 * first.tokens < link.tokens < 0.55 * first.tokens
    assert link.tokens < link.greatest


def test_unlike_prefixes_have_a_first_token_in_common_as_templates_begin_alike() -> None:
    wire = Wire()
    wire.call([system("A" * 400), user("a")], assistant("c"), counts=usage(1000, 5))
    wire.call([system("B" * 400), user("a")], assistant("c"), counts=usage(1000, 5))
    link = shared(wire)[1].prefix

    assert link is not None
    assert (link.of, link.tokens, link.least) == ("s0", 1, 0)


def test_measured_prompts_make_lengths_and_links_exact() -> None:
    wire = Wire()
    prompts = [
        (system("A" * 400), [*range(100), *range(500, 520)]),
        (system("A" * 400), [*range(100), *range(600, 620)]),
        (system("B" * 400), [*range(7), *range(800, 920)]),
    ]
    for number, (first, ids) in enumerate(prompts):
        exchange = wire.ask([first, user(f"user {number}")])
        wire.answer(exchange, assistant("c"), counts=usage(len(ids), 5))
        exchange.measured(ids)
    trace = wire.close()

    assert trace.shared_prefixes[0].tokens == 100
    assert trace.shared_prefixes[1].prefix == SharedPrefixLink("s0", 7)
    assert [call.prefix.of for call in trace.calls()] == ["s0", "s0", "s1"]
    assert all(call.prefix.least == call.prefix.tokens == call.prefix.greatest for call in trace.calls())


def test_in_a_named_campaign_ids_follow_from_what_they_name() -> None:
    ids = []
    for first in ("A", "B"):
        wire = Wire(key=KEY, campaign="ab" * 8)
        for text in (first, "C"):
            wire.call([system(text * 400), user("a")], assistant("c"), counts=usage(1000, 5))
        ids.append([prefix.id for prefix in shared(wire)])

    assert ids[0][0] != ids[1][0]
    assert ids[0][1] == ids[1][1]


def test_in_a_named_campaign_another_key_gives_other_ids() -> None:
    ids: set[str] = set()
    for key in (KEY, b"l" * 32):
        wire = Wire(key=key, campaign="ab" * 8)
        wire.call([system("A"), user("a")], assistant("c"), counts=usage(1000, 5))
        ids.update(prefix.id for prefix in shared(wire))

    assert len(ids) == 2


def test_in_a_named_campaign_two_prefixes_of_a_run_never_get_one_id() -> None:
    wire = Wire(key=KEY, campaign="ab" * 8)
    for text in ("A", "B"):
        wire.call([system(text * 400), user("a")], assistant("c"), counts=usage(1000, 5))
    journal = wire.written()
    first, second = (x for x in journal.records if isinstance(x, PartSeen) and x.role == "system")
    alike = replace(second, digest=f"{(int(first.digest, 16) + IDS) % 2**128:032x}")

    trace = build_trace(Journal(journal.header, tuple(alike if x is second else x for x in journal.records))).trace

    assert trace is not None
    assert len({prefix.id for prefix in trace.shared_prefixes}) == 2


def test_a_link_behind_which_nothing_is_known_has_a_bound_that_a_trace_can_hold() -> None:
    wire = Wire()
    for name, unseen in (("x", "a"), ("y", "b")):
        tools = [{"type": "function", "name": name}]
        body = {"model": "m", "instructions": "i", "tools": tools, "input": "q", "previous_response_id": unseen}
        wire.answer(wire.recorder.request("/v1/responses", orjson.dumps(body), at_s=wire.now_s))
    trace = wire.close()

    assert loads(dumps(trace)) == trace
    assert any(prefix.prefix and prefix.prefix.greatest == MAX_COUNT for prefix in trace.shared_prefixes)
