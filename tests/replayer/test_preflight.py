from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from event_loops import in_event_loop

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.preflight import NO_CACHED, NO_IDS, IdsRefused, check_context, check_server
from rotoscope.replayer.server import Server
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.testing import make_call
from rotoscope.traces import RunFailed

VOCABULARY = Vocabulary(1000, 30_000)


@dataclass
class Answers:
    """A backend that answers as it is told; by default as a server should."""

    prompt_tokens: Callable[[int], int | None] = lambda tokens: tokens
    completion_tokens: Callable[[int], int | None] = lambda tokens: tokens
    ids: Callable[[int], int] = lambda tokens: tokens
    cached_tokens: Callable[[int], int | None] = lambda request: 0
    """By the number of the request, from 1."""
    fails: dict[int, FailureKind] = field(default_factory=dict)
    prompts: list[list[int]] = field(default_factory=list)

    async def perform(self, exchange: Exchange) -> Failure | None:
        self.prompts.append(json.loads(exchange.prompt))
        request = len(self.prompts)
        if request in self.fails:
            return Failure(self.fails[request])
        exchange.prompt_tokens = self.prompt_tokens(len(self.prompts[-1]))
        exchange.completion_tokens = self.completion_tokens(exchange.output_tokens)
        exchange.output_ids = list(range(self.ids(exchange.output_tokens)))
        exchange.cached_tokens = self.cached_tokens(request)
        return None


async def noted(answers: Answers, *, vocabulary: Vocabulary = VOCABULARY, salt: str = "salt") -> list[str]:
    notes = Notes(lambda text: None)
    await check_server(answers, api="completions", vocabulary=vocabulary, salt=salt, notes=notes)
    return list(notes.kept)


@in_event_loop
async def test_a_good_server_is_asked_once_and_nothing_is_said() -> None:
    answers = Answers()

    assert await noted(answers) == []
    assert len(answers.prompts) == 1
    assert len(answers.prompts[0]) < 50


@in_event_loop
async def test_its_prompts_hold_what_no_prompt_of_the_run_begins_with() -> None:
    answers = Answers(cached_tokens=lambda request: None)
    await noted(answers)
    await noted(answers, salt="other")

    assert {prompt[0] for prompt in answers.prompts} == {VOCABULARY.low - 1}
    assert all(VOCABULARY.low <= token < VOCABULARY.high for prompt in answers.prompts for token in prompt[1:])
    assert answers.prompts[0] != answers.prompts[3]


@in_event_loop
async def test_the_lowest_id_will_do_where_there_is_none_below() -> None:
    answers = Answers()
    await noted(answers, vocabulary=Vocabulary(0, 9))

    assert set(answers.prompts[0]) <= set(range(9))


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (Answers(ids=lambda tokens: 0), NO_IDS),
        (Answers(ids=lambda tokens: tokens - 1), NO_IDS),
        (
            Answers(completion_tokens=lambda tokens: 1, ids=lambda tokens: 1),
            "3 output tokens were asked for and 1 came",
        ),
        (Answers(prompt_tokens=lambda tokens: 2 * tokens), "counts 48 tokens in a prompt of 24 ids"),
        (Answers(cached_tokens=lambda request: None), NO_CACHED),
        (Answers(fails={1: FailureKind.SERVER_ERROR}), "a first request of a few tokens failed: server_error"),
    ],
    ids=["no ids", "too few ids", "short answers", "other prompts", "no cached tokens", "failed"],
)
@in_event_loop
async def test_what_makes_numbers_wrong_is_noted(answers: Answers, says: str) -> None:
    (note,) = await noted(answers)

    assert says in note
    assert len(answers.prompts) <= 3


@in_event_loop
async def test_a_server_that_tells_no_zeros_is_seen_to_tell_others() -> None:
    answers = Answers(cached_tokens=lambda request: 592 if request == 3 else None)

    assert await noted(answers) == []
    assert answers.prompts[1] == answers.prompts[2]
    assert len(answers.prompts) == 3


@in_event_loop
async def test_what_is_not_known_is_not_said() -> None:
    silent = Answers(
        prompt_tokens=lambda tokens: None,
        completion_tokens=lambda tokens: None,
        cached_tokens=lambda request: None,
        fails={2: FailureKind.NO_ANSWER},
    )

    assert await noted(silent) == []


@pytest.mark.parametrize("kind", [FailureKind.BAD_REQUEST, FailureKind.NOT_FOUND, FailureKind.HTTP_ERROR])
@in_event_loop
async def test_refused_ids_are_an_error_that_names_the_other_api(kind: FailureKind) -> None:
    with pytest.raises(IdsRefused, match="--api chat"):
        await noted(Answers(fails={1: kind}))


@in_event_loop
async def test_a_servers_own_words_are_in_the_error_and_in_no_note() -> None:
    said: list[str] = []
    notes = Notes(said.append)
    for kind in (FailureKind.SERVER_ERROR, FailureKind.BAD_REQUEST):
        try:
            await check_server(
                Answers(fails={1: kind}), api="generate", vocabulary=VOCABULARY, salt=None, notes=notes, said=["canary"]
            )
        except IdsRefused as error:
            said.append(str(error))

    assert said[0] == "request failed: server_error: canary"
    assert "with --api generate (bad_request: canary)" in said[-1]
    assert "canary" not in str(notes.kept)


@pytest.mark.parametrize("kind", [FailureKind.UNAUTHORIZED, FailureKind.FORBIDDEN])
@in_event_loop
async def test_a_missing_key_is_an_error(kind: FailureKind) -> None:
    with pytest.raises(RunFailed, match="--api-key-env"):
        await noted(Answers(fails={1: kind}))


@pytest.mark.parametrize(
    ("context", "notes"),
    [
        (None, []),
        (120, []),
        (119, ["1 calls are longer than the server's context of 119 tokens: they fail"]),
        (50, ["2 calls are longer than the server's context of 50 tokens: they fail"]),
    ],
)
def test_calls_that_cannot_fit_are_counted_before_the_run(context: int | None, notes: list[str]) -> None:
    said = Notes(lambda text: None)
    check_context(
        [make_call(0, isl=100, osl=20), make_call(1, isl=50, osl=9)], Server("m", context_tokens=context), said
    )

    assert list(said.kept) == notes
