from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from doctor_server import Patient, cut, hang, html, out_of_order
from event_loops import in_event_loop
from raw_server import Handler, serving

from rotoscope.replayer.doctor.checks import Check, Diagnosis
from rotoscope.replayer.doctor.examination import Examination, examine_async
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.traces import RunFailed, UnusableInput

PLENTY_S = 60.0


async def examined(url: str, **options: Any) -> Diagnosis:
    given: dict[str, Any] = {"url": url, "timeout_s": PLENTY_S, "pause_s": 0.0} | options
    return await examine_async(Examination(**given))


def by_name(diagnosis: Diagnosis) -> dict[str, Check]:
    return {check.name: check for check in diagnosis.checks}


def verdicts(diagnosis: Diagnosis, verdict: str) -> list[str]:
    return [check.name for check in diagnosis.checks if check.verdict == verdict]


@in_event_loop
async def test_nothing_is_wrong_with_the_simulator() -> None:
    async with running_simulator(SimulatorOptions(speed=0, profile="trtllm-whole-blocks")) as url:
        diagnosis = await examined(url)

    assert diagnosis.exit_code == 0
    assert verdicts(diagnosis, "warn") == verdicts(diagnosis, "fail") == []
    checks = by_name(diagnosis)
    assert checks["block size"].seen.startswith("32 tokens")
    assert checks["decode reuse"].seen.startswith("kept")
    assert checks["counters"].seen.startswith("agree with usage")
    assert checks["model"].seen == "rotoscope-simulator"
    assert diagnosis.command == f"rotoscope replay TRACES --url {url}/v1"


@in_event_loop
async def test_a_good_server_passes_and_is_told_its_options() -> None:
    patient = Patient(block_size=32)
    async with serving(patient.handlers({"/metrics": patient.metrics})) as url:
        diagnosis = await examined(url)

    assert diagnosis.exit_code == 0
    assert verdicts(diagnosis, "warn") == []
    assert by_name(diagnosis)["counters"].verdict == "ok"
    expected = f"rotoscope replay TRACES --url {url}/v1 --profile vllm --block-size 32 --vocab 1000:30000"
    assert diagnosis.command == expected


@in_event_loop
async def test_what_answers_do_not_tell_is_taken_from_the_counters() -> None:
    patient = Patient(told_cached=lambda cached: None)
    async with serving(patient.handlers({"/metrics": patient.metrics})) as url:
        diagnosis = await examined(url)

    checks = by_name(diagnosis)
    assert checks["cached tokens"].verdict == "warn"
    assert checks["cached tokens"].seen == "not reported; by counters 0 of a fresh prompt, 1,984 of 2,000 repeated"
    assert checks["block size"].seen.startswith("16 tokens")
    assert checks["decode reuse"].seen.startswith("kept")
    assert checks["counters"].seen.startswith("agree with the prompt tokens of usage: ")
    assert diagnosis.command.endswith("--profile vllm --vocab 1000:30000")


@in_event_loop
async def test_counters_of_a_server_that_serves_others_tell_nothing_of_one_request() -> None:
    patient = Patient(told_cached=lambda cached: None)

    async def busy(request: Any) -> Any:
        patient.prompt_tokens += 1
        return await patient.metrics(request)

    async with serving(patient.handlers({"/metrics": busy})) as url:
        diagnosis = await examined(url)

    assert by_name(diagnosis)["block size"].verdict == "none"
    assert by_name(diagnosis)["counters"].verdict == "warn"


@in_event_loop
async def test_the_whole_examination_takes_few_tokens() -> None:
    patient = Patient()
    async with serving(patient.handlers()) as url:
        await examined(url)

    assert patient.prompt_tokens < 10_000
    assert sum(body["max_tokens"] for body in patient.bodies) < 400
    assert len(patient.bodies) < 30


@pytest.mark.parametrize("fault", [out_of_order, html, cut])
@in_event_loop
async def test_a_server_that_completes_nothing_fails_each_check_once_and_is_not_asked_for_more(fault: Handler) -> None:
    async with serving(Patient().handlers({"/v1/completions": fault})) as url:
        diagnosis = await examined(url)

    assert diagnosis.exit_code == 3
    assert verdicts(diagnosis, "fail") == ["token ids", "replay"]
    assert by_name(diagnosis)["block size"].verdict == "none"
    assert diagnosis.command == ""


@pytest.mark.parametrize("fault", [out_of_order, html, cut, hang])
@in_event_loop
async def test_a_server_that_does_not_tell_its_model_is_an_error(fault: Handler) -> None:
    async with serving(Patient().handlers({"/v1/models": fault})) as url:
        with pytest.raises(RunFailed):
            await examined(url, timeout_s=PLENTY_S if fault is not hang else 0.05)


@pytest.mark.parametrize("fault", [out_of_order, html])
@in_event_loop
async def test_a_model_that_was_given_need_not_be_told(fault: Handler) -> None:
    async with serving(Patient().handlers({"/v1/models": fault})) as url:
        diagnosis = await examined(url, model="mine")

    assert diagnosis.exit_code == 0
    assert by_name(diagnosis)["context"].seen == "8,192 tokens, by its refusal of more"
    assert diagnosis.command.startswith(
        f"rotoscope replay TRACES --url {url}/v1 --model mine --profile token --block-size 16"
    )


@in_event_loop
async def test_a_model_that_the_server_does_not_list_is_a_warning() -> None:
    async with serving(Patient().handlers()) as url:
        diagnosis = await examined(url, model="mine")

    assert by_name(diagnosis)["model"].verdict == "warn"
    assert by_name(diagnosis)["model"].seen == "mine, which /v1/models does not list"


@in_event_loop
async def test_a_server_that_never_answers_is_asked_only_a_few_times() -> None:
    requests = 0

    async def counting(request: Any) -> Any:
        nonlocal requests
        requests += 1
        return await hang(request)

    others = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/tokenize", "/metrics", "/props")
    async with serving(Patient().handlers(dict.fromkeys(["/v1/completions", *others], counting))) as url:
        diagnosis = await examined(url, timeout_s=0.05)

    assert by_name(diagnosis)["token ids"].seen.startswith("no_answer")
    assert diagnosis.exit_code == 3
    assert requests <= 3


@in_event_loop
async def test_a_server_that_stops_answering_in_between_is_left_alone() -> None:
    patient, requests = Patient(), 0

    async def answers_twice(request: Any) -> Any:
        nonlocal requests
        requests += 1
        return await (patient.completions(request) if requests < 3 else hang(request))

    async with serving(patient.handlers({"/v1/completions": answers_twice})) as url:
        diagnosis = await examined(url, timeout_s=0.3)

    assert diagnosis.exit_code == 3
    assert "output length" in verdicts(diagnosis, "fail")
    assert requests <= 4


@in_event_loop
async def test_a_server_for_messages_only_is_examined_by_chats() -> None:
    patient = Patient()
    handlers = {"/v1/models": patient.models, "/v1/chat/completions": patient.chat}
    async with serving(handlers) as url:
        diagnosis = await examined(url)

    checks = by_name(diagnosis)
    assert diagnosis.exit_code == 0
    assert verdicts(diagnosis, "warn") == ["token ids"]
    assert checks["chat"].seen == "/v1/chat/completions answers, usage counts 3 prompt tokens"
    assert checks["cached tokens"].seen == "0 of a fresh prompt, 688 of 700 repeated"
    assert checks["block size"].verdict == "none"
    assert diagnosis.command == f"rotoscope replay TRACES --url {url}/v1 --api chat"


@in_event_loop
async def test_nobody_listening_is_an_error() -> None:
    with pytest.raises(RunFailed, match="nothing listens"):
        await examined("http://127.0.0.1:1")


@in_event_loop
async def test_several_models_are_to_be_chosen_from() -> None:
    patient = Patient()

    async def models(request: Any) -> Any:
        return web.json_response({"data": [{"id": "a"}, {"id": "b"}]})

    async with serving(patient.handlers({"/v1/models": models})) as url:
        with pytest.raises(UnusableInput, match="--model: a, b"):
            await examined(url)
        diagnosis = await examined(url, model="b")

    assert {body["model"] for body in patient.bodies} == {"b"}
    assert "--model b" in diagnosis.command


@in_event_loop
async def test_a_key_that_the_server_repeats_is_not_told() -> None:
    async def refuse(request: Any) -> Any:
        return web.json_response({"error": {"message": f"wrong: {request.headers['Authorization']}"}}, status=401)

    async with serving(Patient().handlers({"/v1/completions": refuse})) as url:
        diagnosis = await examined(url, api_key="canary-7")

    assert "wrong: Bearer ***" in str(diagnosis.as_dict())
    assert "canary" not in str(diagnosis.as_dict())


@in_event_loop
async def test_the_key_is_sent_and_only_its_variable_is_named() -> None:
    keys, patient = set(), Patient()

    async def listening(request: Any) -> Any:
        keys.add(request.headers.get("Authorization"))
        return await patient.completions(request)

    async with serving(patient.handlers({"/v1/completions": listening})) as url:
        diagnosis = await examined(url, api_key="canary-7", api_key_env="THE_KEY")

    assert keys == {"Bearer canary-7"}
    assert "--api-key-env THE_KEY" in diagnosis.command
    assert "canary" not in str(diagnosis.as_dict())


@in_event_loop
async def test_a_password_in_the_url_is_not_shown() -> None:
    async with serving(Patient().handlers()) as url:
        diagnosis = await examined(url.replace("://", "://somebody:canary@"))

    assert "canary" not in str(diagnosis.as_dict())


@in_event_loop
async def test_what_is_done_is_told() -> None:
    told: list[str] = []
    async with running_simulator(SimulatorOptions(speed=0)) as url:
        await examine_async(Examination(url=url), watch=told.append)

    assert told[0] == "asking for the model"
    assert "repeating prompts" in told


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": 0.0},
        {"timeout_s": float("nan")},
        {"url": "ftp://host"},
        {"engine": "steam"},
        {"url": "http://me@host", "api_key": "k"},
    ],
)
def test_values_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UnusableInput):
        Examination(**{"url": "http://host"} | options)
