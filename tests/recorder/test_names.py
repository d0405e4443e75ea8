from __future__ import annotations

from io import BytesIO

import orjson
from chat_wire import PATH, assistant, tool_call, user

from rotoscope.recorder import Recorder
from rotoscope.recorder.names import Names
from rotoscope.traces import dumps
from rotoscope.traces.journal import JournalWriter


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


def test_domain_without_a_model_has_no_name() -> None:
    names = Names()
    names.domain(0, b"[null,null]")

    assert names.models == {0: ""}
