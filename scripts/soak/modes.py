"""The kinds of soak: a long one of the proxy, one that is killed, one of a recorded command, and one run left open."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import random
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotoscope.proxy.recording import beside
from rotoscope.traces.canary import Canaries
from scripts.soak import verdict
from scripts.soak.crowd import Crowd, sizes_of
from scripts.soak.gateway import Gateway, audited, clean_environment, gateway, rotoscope
from scripts.soak.ledger import RunLedger, attempts_in
from scripts.soak.plans import BIG_BODY_BYTES, Weather
from scripts.soak.upstream import Seen, Upstream, upstream
from scripts.soak.watching import Rest, Watch, at_rest, peak_mib, table_of

TELL_EVERY = 5000
"""After so many requests a line tells how far it is."""


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    calls: int
    rounds: int
    calls_a_run: int
    runs_at_once: int
    clients: int
    seed: int
    big_share: float
    idle_s: float
    windows: int
    is_quick: bool
    """Whether nothing is said of what grows, which takes waiting."""
    tokenizer: str
    work: Path | None
    ledger: Path | None

    @property
    def weather(self) -> Weather:
        return Weather(big_share=self.big_share)


async def proxy(settings: Settings, work: Path) -> list[str]:
    """Soak the proxy in two halves with a rest behind each; return what is not as it should be."""
    with upstream() as server:
        async with gateway(server.origin, work, idle_s=settings.idle_s, tokenizer=settings.tokenizer) as stood:
            crowd = Crowd(stood.address, settings.seed, settings.clients, settings.weather)
            watch = Watch(stood.process.pid, lambda: crowd.done, lambda: crowd.in_flight)
            crowd.on_done = _look_on(crowd, settings.calls // 3, stood.folder, work / "journals")
            started_s = time.monotonic()
            rests = [await at_rest(watch, stood.probe)]
            for half in _halves(settings):
                async with beside(watch.run()), beside(stood.ask_again_and_again()):
                    await crowd.runs(half, at_once=settings.runs_at_once, end=stood.end)
                if not settings.is_quick:
                    await stood.settle(longest_s=settings.idle_s * 4 + 60)
                    rests.append(await at_rest(watch, stood.probe))
            calls = await stood.calls()
            seen = await _left_alone(server)
            wall_s, status = time.monotonic() - started_s, await stood.stop()
        written = verdict.read_traces(stood.folder, crowd.ledgers, stood.traces_of())
        canaries = crowd.canaries.all()
        journals = [work / "journals"] if (work / "journals").exists() else []
        problems = [
            *crowd.problems(),
            *([f"the gateway ended with status {status}"] if status else []),
            *(f"the gateway said: {line}" for line in stood.trouble()),
            *verdict.trace_problems(crowd.ledgers, written),
            *verdict.count_problems(written, refused=stood.refused(), calls=calls),
            *verdict.byte_problems(seen, crowd.digests),
            *([] if settings.is_quick else verdict.growth_problems(rests[-2], rests[-1], settings.calls // 2)),
            *await audited([stood.folder, *journals], canaries, work),
            *_said(canaries, stood.log.read_text()),
        ]
    _print_proxy(stood, crowd, watch, rests, wall_s=wall_s, windows=settings.windows)
    print(f"traces: {len(written.all)} with {sum(map(attempts_in, written.all)):,} requests")
    print(f"answers compared byte for byte: {len(crowd.digests):,}; connections held until clients left: {seen.held:,}")
    return problems


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _said(canaries: list[str], said: str) -> list[str]:
    """Return whether a canary is in what was said, in any form."""
    hits = Canaries.of(canaries, tokenizers={}).in_text(said)
    return [f"what was said holds a canary: {hits[0]}"] if hits else []


async def _left_alone(server: Upstream) -> Seen:
    """Return what a server has seen, once nobody holds it any more; or after a while, as nobody may for long."""
    for _ in range(50):
        if not (seen := server.seen()).holding:
            break
        await asyncio.sleep(0.1)
    return seen


def _halves(settings: Settings) -> list[list[int]]:
    sizes = sizes_of(settings.calls, settings.calls_a_run)
    middle = (len(sizes) + 1) // 2
    return [sizes[:middle], sizes[middle:]]


def _look_on(crowd: Crowd, at: int, folder: Path, target: Path) -> Any:
    """Tell how far it is; keep the journals of the moment in which so many have ended, to look for canaries in them."""

    def copy() -> None:
        if crowd.done % TELL_EVERY == 0:
            print(f"{crowd.done:,} requests have ended", file=sys.stderr, flush=True)
        if crowd.done == at:
            target.mkdir()
            for journal in folder.glob("*.journal.jsonl"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(journal, target)

    return copy


def _print_proxy(stood: Gateway, crowd: Crowd, watch: Watch, rests: list[Rest], *, wall_s: float, windows: int) -> None:
    print(f"{crowd.done:,} requests in {len(crowd.ledgers)} runs, {wall_s:.0f} s, seed {crowd.seed}")
    print("outcomes: " + ", ".join(f"{name} {count:,}" for name, count in crowd.outcomes.most_common()))
    print(table_of(watch.windows(windows)))
    for name, rest in zip(("begun", "first half", "second half"), rests, strict=False):
        print(
            f"at rest, {name}: RSS {rest.rss_mib:.1f} MiB, PSS {rest.pss_mib:.1f} MiB, {rest.descriptors} descriptors, "
            f"{rest.threads} threads, {rest.tasks} tasks, {rest.blocks:,} blocks"
        )
    waits, ends = sorted(stood.waits_s), sorted(stood.ends_s)
    print(f"health answered in {statistics.median(waits) * 1e3:.0f} ms, at most {waits[-1] * 1e3:.0f} ms")
    if ends:
        print(f"a run ended in {statistics.median(ends) * 1e3:.0f} ms, at most {ends[-1] * 1e3:.0f} ms")


async def kill(settings: Settings, work: Path) -> list[str]:
    """Kill the proxy at a random moment, recover what it left, and compare; again and again."""
    problems: list[str] = []
    chance = random.Random(settings.seed)
    with upstream() as server:
        for number in range(settings.rounds):
            problems += [
                f"round {number}: {x}" for x in await _killed(settings, server, _made(work / str(number)), chance)
            ]
    return problems


async def _killed(settings: Settings, server: Upstream, work: Path, chance: random.Random) -> list[str]:
    runs = max(1, settings.calls // 50)
    ledgers = [RunLedger(f"run-{number}") for number in range(runs)]
    async with gateway(server.origin, work, idle_s=settings.idle_s, tokenizer="none") as stood:
        crowd = Crowd(stood.address, chance.getrandbits(30), settings.clients, settings.weather)
        moment, reached = chance.randint(5, settings.calls * 3 // 4), asyncio.Event()
        crowd.on_done = lambda: reached.set() if crowd.done >= moment else None
        numbers = [iter(range(1 + 300 * run, 51 + 300 * run)) for run in range(runs)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(crowd.run(x, y)) for x, y in zip(ledgers, numbers, strict=True)]
            await reached.wait()
            await asyncio.sleep(chance.random() * 0.02)
            known = [ledger.at_a_kill() for ledger in ledgers]
            in_flight, wrong = sum(len(ledger.open) for ledger in ledgers), crowd.problems()
            stood.process.kill()
            for task in tasks:
                task.cancel()
        await stood.process.wait()
    shutil.copytree(stood.folder, work / "left", dirs_exist_ok=True)
    status, said = await rotoscope("recover", stood.folder)
    problems = [*wrong, *([f"recover: {said[-300:]}"] if status else []), *_said(crowd.canaries.all(), said)]
    written = verdict.read_traces(stood.folder, known, {})
    problems += verdict.killed_problems(known, written)
    lost = sum(call.finish_reason == "lost" for trace in written.all for call in trace.calls())
    print(
        f"killed after {crowd.done} of {settings.calls} requests, {in_flight} in flight for their clients: "
        f"{sum(len(x.whole) for x in known)} whole ones are in the {len(written.all)} traces, {lost} are lost"
    )
    return [*problems, *await audited([work / "left", stood.folder], crowd.canaries.all(), work)]


async def record(settings: Settings, work: Path) -> list[str]:
    """Record a command that makes the calls of one run, and compare."""
    ledger_file, folder = work / "ledger.pickle", work / "recordings"
    agent = [
        sys.executable,
        "-m",
        "scripts.soak",
        "agent",
        "--calls",
        str(settings.calls),
        "--ledger",
        str(ledger_file),
    ]
    agent += ["--clients", str(settings.clients), "--seed", str(settings.seed), "--big", str(settings.big_share)]
    options = ("--tokenizer", settings.tokenizer, "-o", str(folder))
    with upstream() as server:
        started_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rotoscope", "record", "--upstream", server.origin, *options, "--", *agent),
            stderr=asyncio.subprocess.PIPE,
            env=clean_environment(),
        )
        watch = Watch(process.pid, lambda: 0, lambda: 0)
        async with beside(watch.run()):
            _, said = await process.communicate()
        wall_s, seen = time.monotonic() - started_s, server.seen()
    crowd: Crowd = pickle.loads(ledger_file.read_bytes())  # written by the agent above
    written = verdict.read_traces(folder, crowd.ledgers, {})
    most = max((sample.rss_mib for sample in watch.samples), default=0.0)
    print(f"{crowd.done:,} requests of a recorded command, {wall_s:.0f} s; RSS at most {most:.0f} MiB")
    print("outcomes: " + ", ".join(f"{name} {count:,}" for name, count in crowd.outcomes.most_common()))
    return [
        *crowd.problems(),
        *([f"the command ended with status {process.returncode}"] if process.returncode else []),
        *verdict.trace_problems(crowd.ledgers, written),
        *verdict.byte_problems(seen, crowd.digests),
        *await audited([folder], crowd.canaries.all(), work),
        *_said(crowd.canaries.all(), said.decode(errors="replace")),
    ]


async def agent(settings: Settings, work: Path) -> list[str]:
    """Be the command that is recorded: make the calls of one run and write down what is known of them."""
    import os

    host, _, port = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")[0].partition(":")
    crowd = Crowd((host, int(port)), settings.seed, settings.clients, settings.weather)
    await crowd.run(RunLedger("all", "all"), iter(range(1, settings.calls + 1)))
    crowd.on_done = int  # type: ignore[assignment] # what can be pickled
    assert settings.ledger is not None
    settings.ledger.write_bytes(pickle.dumps(crowd))
    return []


async def open_run(settings: Settings, work: Path) -> list[str]:
    """Tell what an open run takes in memory, a call, and how long its trace takes at the end."""
    problems: list[str] = []
    with upstream() as server:
        for turns in (1, 12, 100):
            problems += await _open_run(settings, server, _made(work / str(turns)), turns)
        return problems + await _big_body(settings, server, _made(work / "big"))


async def _big_body(settings: Settings, server: Upstream, work: Path) -> list[str]:
    """Tell what one large request takes while it passes."""
    async with gateway(server.origin, work, idle_s=3600, tokenizer=settings.tokenizer) as stood:
        crowd = Crowd(stood.address, settings.seed, 1, Weather(is_fair=True, big_share=1.0))
        watch = Watch(stood.process.pid, lambda: crowd.done, lambda: 0)
        before = watch.sample()
        await crowd.run(RunLedger("big"), iter([1]))
        peak, after = peak_mib(stood.process.pid), watch.sample()
        await stood.stop()
    print(
        f"a request of {BIG_BODY_BYTES[1] >> 20} MiB: RSS before {before.rss_mib:.0f} MiB, at most {peak:.0f} MiB, "
        f"after {after.rss_mib:.0f} MiB, {after.cpu_s - before.cpu_s:.1f} s of CPU"
    )
    return crowd.problems()


async def _open_run(settings: Settings, server: Upstream, work: Path, turns: int) -> list[str]:
    async with gateway(server.origin, work, idle_s=3600, tokenizer=settings.tokenizer) as stood:
        crowd = Crowd(stood.address, settings.seed, settings.clients, Weather(is_fair=True))
        watch, ledger = Watch(stood.process.pid, lambda: crowd.done, lambda: 0), RunLedger("open")
        rests: list[Rest] = []
        for start in (0, settings.calls // 2):
            numbers = (1 + number % 200 for number in range(start, start + settings.calls // 2))
            await crowd.run(ledger, numbers, most_turns=turns)
            await asyncio.sleep(5)
            rests.append(await at_rest(watch, stood.probe))
        await stood.end("open")
        after = await at_rest(watch, stood.probe)
        await stood.stop()
    calls = settings.calls // 2
    grown, blocks = (rests[1].rss_mib - rests[0].rss_mib) * 1024 / calls, (rests[1].blocks - rests[0].blocks) / calls
    (trace,) = stood.folder.glob("*.trace.json")
    print(
        f"conversations of at most {turns} turns: an open run takes {grown:.1f} KiB and {blocks:.0f} blocks a call; "
        f"its trace of {settings.calls:,} calls ({trace.stat().st_size / 1e6:.1f} MB) took {stood.ends_s[-1]:.1f} s, "
        f"RSS before {rests[1].rss_mib:.0f} MiB, after {after.rss_mib:.0f} MiB"
    )
    return crowd.problems()
