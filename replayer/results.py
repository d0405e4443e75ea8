"""What a replay writes: one line a request and one a session as they end, and a summary when it is over.

`results.jsonl` holds `RequestResult` lines, `sessions.jsonl` `SessionResult` lines, `summary.json` the `Summary`; further
files of lines hold what only some runs have. Nothing of them says anything about the machine, the person, the server's address or what anybody wrote.

A version that was not yet released takes new fields; a released one takes none, so that the next field makes the next
version. Either way a new field has a default that is true of results without it, such as None for "not known": by that
`reading` and audit take older ones. No field of a released version is removed, renamed or given another meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Self, TypeAlias

import orjson

from rotoscope.replayer.failures import FailureKind
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.model import Branch
from rotoscope.traces.writer import write_all, write_whole

FORMAT_NAME = "rotoscope.results"
FORMAT_VERSION = 2
"""1 counted a job's queue, prefill and decode over all of its requests, not those of its path, and told less."""

REQUESTS_FILE = "results.jsonl"
SESSIONS_FILE = "sessions.jsonl"
SUMMARY_FILE = "summary.json"
SERVER_FILE = "server.jsonl"
TIMELINE_FILE = "timeline.jsonl"
GPUS_FILE = "gpus.jsonl"
FILE_NAMES = (REQUESTS_FILE, SESSIONS_FILE, SUMMARY_FILE, SERVER_FILE, TIMELINE_FILE, GPUS_FILE)
DEFAULT_PARENT = Path("results")

Status: TypeAlias = Literal["ok", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """One request as it went; the fields are the keys of its line, None where nothing is known."""

    session: int
    trace: int
    """Number of the trace in the order given."""
    call: int
    branch: Branch | None
    start_s: float | None
    """When it was sent, from the start of the run."""
    lag_s: float | None = None
    """How much later than due that was: than the end of what it waited for, or than the session was to start."""
    ttft_s: float | None
    ttfo_s: float | None = None
    """To the first token that is no reasoning; None where the answer has none, and where the API does not tell."""
    itl_s: float | None
    """Mean over the answer."""
    latency_s: float | None
    prompt_tokens: int | None
    """By the server's usage; so are the next two, but that completion tokens are counted where there is no usage."""
    completion_tokens: int | None
    cached_tokens: int | None
    planned_prompt_tokens: int
    planned_completion_tokens: int
    asked_tokens: int
    """Tokens asked for: the planned ones, but at least 1, which servers insist on."""
    isl_mismatch: bool
    """Whether the server counted another number of prompt tokens than were planned."""
    osl_mismatch: bool
    """Whether the answer has another number of tokens than were asked for."""
    status: Status
    failure: FailureKind | None = None
    http_status: int | None = None
    error_type: str | None = None
    error_code: str | None = None
    simulated: bool = False
    """Whether the server is a simulator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """One session as it went; the fields are the keys of its line."""

    session: int
    trace: int
    admitted_s: float
    """When it was let in, from the start of the run."""
    lag_s: float | None = None
    """How much later than planned that was; None where no time was planned."""
    start_s: float | None
    """When its first request was sent; None if none was."""
    latency_s: float | None
    """From its first request to its last answer, generating and waiting; None unless it was completed, like the rest.

    Generating and waiting, and their parts, are the time of the steps that led to the last answer."""
    generating_s: float | None
    queue_prefill_s: float | None = None
    """Of it: no token had come, a request was queued or its prompt being computed."""
    decode_s: float | None = None
    """Of it: an answer was arriving."""
    waiting_s: float | None
    tool_s: float | None = None
    """Of waiting."""
    client_s: float | None = None
    """Of waiting: recorded waits that are no tools."""
    overhead_s: float | None = None
    """Of waiting: the replay itself."""
    join_wait_s: float | None = None
    """How long branches that were done waited for their siblings, added up; beside the latency and not part of it."""
    requests: int
    status: Status
    failure: FailureKind | None = None
    simulated: bool = False


class ResultsFolder:
    """A folder that takes the results of one run; each line is in the file when the call returns."""

    def __init__(self, path: Path, requests: BinaryIO, sessions: BinaryIO, *, files: ExitStack | None = None) -> None:
        """The two files that every run has are unbuffered; `files` closes the others, which are opened when needed."""
        self.path = path
        self._files = {REQUESTS_FILE: requests, SESSIONS_FILE: sessions}
        self._closing = files or ExitStack()

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Open the folder of a new run; raise RunFailed where it cannot be written to."""
        with ExitStack() as files:
            with _errors(path):
                requests = files.enter_context(open(path / REQUESTS_FILE, "xb", buffering=0))
                sessions = files.enter_context(open(path / SESSIONS_FILE, "xb", buffering=0))
            yield cls(path, requests, sessions, files=files)

    def write_request(self, result: RequestResult) -> None:
        self.write_line(REQUESTS_FILE, result)

    def write_session(self, result: SessionResult) -> None:
        self.write_line(SESSIONS_FILE, result)

    def write_line(self, name: str, record: object) -> None:
        """Add a line, a dataclass, to a file of the folder, which is made if it is not there yet."""
        with _errors(self.path):
            if name not in self._files:
                file = open(self.path / name, "xb", buffering=0)  # noqa: SIM115 - closed with the folder
                self._files[name] = self._closing.enter_context(file)
            write_all(self._files[name], orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def write_summary(self, summary: dict[str, object]) -> None:
        """Write the summary, whole or not at all."""
        with _errors(self.path):
            content = orjson.dumps(summary, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2)
            write_whole(self.path / SUMMARY_FILE, content)


def make_folder(wanted: Path | None, *, parent: Path = DEFAULT_PARENT) -> Path:
    """Make the folder of a run: the one wanted, or results/replay-<n> with the next free number."""
    if wanted is None:
        return _next_free(parent)
    check_folder(wanted)
    _make(wanted)
    if any((wanted / name).exists() for name in FILE_NAMES):
        raise UnusableInput(f"{str(wanted)!r} holds results already: name another folder with -o")
    return wanted


def check_folder(path: Path) -> None:
    """Raise UnusableInput for `-`, which elsewhere stands for the standard output."""
    if str(path) == "-":
        raise UnusableInput("results are several files and go to no stream: name a folder with -o")


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableInput(f"cannot make the folder {str(path)!r}: {error.strerror}") from error


def _next_free(parent: Path) -> Path:
    _make(parent)
    taken = [int(name) for path in parent.glob("replay-*") if (name := path.name[7:]).isdigit()]
    number = max(taken, default=0) + 1
    while True:  # another run may take the same number
        try:
            path = parent / f"replay-{number}"
            path.mkdir()
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise UnusableInput(f"cannot make a folder in {str(parent)!r}: {error.strerror}") from error


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write results to {str(path)!r}: {error.strerror}") from error
