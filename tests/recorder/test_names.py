from __future__ import annotations

from io import BytesIO

import orjson
from chat_wire import PATH, assistant, tool_call, user

from rotoscope.recorder import Exchange, Recorder
from rotoscope.recorder.names import Names
from rotoscope.traces import dumps
from rotoscope.traces.journal_files import JournalWriter


def test_names_are_kept_by_the_numbers_in_the_trace_and_written_nowhere() -> None:
    names, journal = Names(), BytesIO()
    recorder = Recorder(JournalWriter(journal), names=names, domain_of=lambda _: 7)
    for model, tools in (("secret-model", ["secret-b", "secret-a"]), ("secret-model", ["secret-a"])):
        body = {"model": model, "messages": [user("hello")], "cache_salt": "secret-salt"}
        exchange = recorder.request(PATH, orjson.dumps(body), at_s=1.0)
        exchange.response(200, at_s=2.0, content_type="application/json")
        message = assistant(calls=[tool_call(f"c{i}", name) for i, name in enumerate(tools)])
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        exchange.chunk(orjson.dumps({"choices": choices}), at_s=2.0)
        exchange.end(at_s=2.0)
    trace = recorder.close()

    assert trace is not None
    assert names.models == {7: "secret-model"}
    assert names.tools == {1: "secret-b", 2: "secret-a"}
    assert [(call.domain, call.tool_calls) for call in trace.calls()] == [(7, ("tool01", "tool02")), (7, ("tool02",))]
    assert b"secret" not in journal.getvalue() + dumps(trace)
    assert "secret" not in repr(names)


def test_model_of_a_gemini_path_is_its_name() -> None:
    names = Names()
    recorder = Recorder(JournalWriter(BytesIO()), names=names, domain_of=len)
    body = orjson.dumps({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]})
    recorder.request("/v1beta/models/secret-model:generateContent", body, at_s=1.0)

    assert list(names.models.values()) == ["secret-model"]


def test_domain_without_a_model_has_no_name() -> None:
    names = Names()
    names.domain(0, b"[null,null]")

    assert names.models == {0: ""}


def test_branches_are_named_after_those_who_call_in_them() -> None:
    names, wire = Names(), BytesIO()
    recorder = Recorder(JournalWriter(wire), names=names)

    def ask(at_s: float, *texts: str, branch: str, parent: str | None = None) -> Exchange:
        headers = {"x-rotoscope-branch": branch} | ({} if parent is None else {"x-rotoscope-parent": parent})
        body = {
            "model": "m",
            "messages": [user(text) if i % 2 == 0 else assistant(text) for i, text in enumerate(texts)],
        }
        return recorder.request(PATH, orjson.dumps(body), at_s=at_s, headers=headers)

    def answer(exchange: Exchange, at_s: float) -> None:
        exchange.response(200, at_s=at_s, content_type="application/json")
        choice = {"index": 0, "message": assistant("yes"), "finish_reason": "stop"}
        exchange.chunk(orjson.dumps({"choices": [choice]}), at_s=at_s)
        exchange.end(at_s=at_s)

    answer(ask(1.0, "plan", branch="planner"), 2.0)
    workers = [ask(3.0, f"work {i}", branch=f"worker {i}", parent="planner") for i in range(2)]
    for worker in workers:
        answer(worker, 4.0)
    answer(ask(5.0, "plan", "yes", "go on", branch="planner"), 6.0)
    trace = recorder.close()

    assert trace is not None
    assert names.branches == {"root": ["planner"], "0.0": ["worker 0"], "0.1": ["worker 1"]}
    assert b"worker" not in wire.getvalue() + dumps(trace)
