from __future__ import annotations

import fcntl
import json
import os
import resource
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rotoscope.recorder.campaigns import Campaign, Campaigns, campaigns_folder
from rotoscope.traces import load
from rotoscope.traces.errors import UnusableInput

PROCESSES = 20

AT_ONCE = """
import os, sys
from pathlib import Path
import rotoscope.recorder, rotoscope.traces.journal_files  # once for all processes
from rotoscope.recorder.campaigns import Campaigns
folder, processes = Path(sys.argv[1]), int(sys.argv[2])
def each(number, campaign):
    %s
children = []
read, write = os.pipe()
for number in range(processes):
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)  # until all are there
        try:
            with Campaigns(folder / "campaigns").opened("nightly") as campaign:
                each(number, campaign)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(write)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def at_once(folder: Path, source: str) -> None:
    """Let many processes open one campaign that nobody has begun, and do something with it."""
    script = AT_ONCE % source.strip().replace("\n", "\n    ")
    subprocess.run([sys.executable, "-c", script, str(folder), str(PROCESSES)], check=True)


def test_campaign_that_nobody_began_is_new_and_afterwards_the_same(tmp_path: Path) -> None:
    with Campaigns(tmp_path).opened("a") as first, Campaigns(tmp_path).opened("a") as second:
        assert (first.is_new, second.is_new) == (True, False)
        assert (first.id, first.key) == (second.id, second.key)
    with Campaigns(tmp_path).opened("a") as later, Campaigns(tmp_path).opened("b") as other:
        assert later.key == first.key
        assert other.key != first.key
        assert other.id != first.id


def test_processes_that_open_a_campaign_at_the_same_time_agree_on_key_and_domains(tmp_path: Path) -> None:
    at_once(
        tmp_path,
        """
domains = [campaign.domain_of(bytes([(number + i) % 5]) * 16) for i in range(5)]
by_digest = [domains[(i - number) % 5] for i in range(5)]
(folder / str(number)).write_text(f"{campaign.id} {campaign.key.hex()} {by_digest}")
""",
    )

    assert len({(tmp_path / str(number)).read_text() for number in range(PROCESSES)}) == 1
    assert sorted(path.name for path in (tmp_path / "campaigns").iterdir()) == ["nightly"]


def test_shared_system_prompt_has_one_id_in_the_traces_of_all_processes_and_nothing_else_is_alike(
    tmp_path: Path,
) -> None:
    at_once(
        tmp_path,
        """
import json
from rotoscope.recorder import Recorder
from rotoscope.traces import save
from rotoscope.traces.journal_files import JournalWriter
def ask(model, *texts):
    messages = [{"role": role, "content": text} for role, text in zip(("system", "user"), texts)]
    exchange = recorder.request("/v1/chat/completions", json.dumps({"model": model, "messages": messages}).encode(), at_s=1.0)
    exchange.response(200, at_s=2.0, content_type="application/json")
    exchange.chunk(b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "yes"}}]}', at_s=2.0)
    exchange.end(at_s=2.0)
recorder = Recorder(JournalWriter(folder / f"{number}.jsonl"), key=campaign.key, campaign=campaign.id)
ask("m", "You are one of many. " * 20, f"task {number}")
ask("m", f"You are number {number}. " * 20, "the same question")
trace = recorder.close()
save(trace, folder / f"{number}.trace.json")
""",
    )

    traces = [load(tmp_path / f"{number}.trace.json") for number in range(PROCESSES)]
    first, *others = ([shared.id for shared in trace.shared_prefixes] for trace in traces)
    assert {ids[0] for ids in others} == {first[0]}
    assert len({first[1], *(ids[1] for ids in others)}) == PROCESSES
    assert len({trace.campaign for trace in traces}) == 1
    assert len({trace.trace_id for trace in traces}) == PROCESSES
    with Campaigns(tmp_path / "campaigns").opened("nightly") as campaign:
        written = b"".join(path.read_bytes() for path in tmp_path.glob("*.json*"))
        assert campaign.key not in written
        assert campaign.key.hex().encode() not in written
        assert b"nightly" not in written


def test_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    with Campaigns(tmp_path / "new").opened("a"):
        pass

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
    assert modes == {"a": 0o700, "key": 0o600, "domains": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "-option", "a b", "x" * 65, "a\n"])
def test_name_that_is_no_plain_word_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="cannot be named"), Campaigns(tmp_path).opened(name):
        pass

    assert list(tmp_path.iterdir()) == []


def test_folder_or_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(UnusableInput, match="yours alone: chmod 700"):
        Campaigns(tmp_path).start("a")
    tmp_path.chmod(0o700)
    Campaigns(tmp_path).start("a")
    (tmp_path / "a" / "key").chmod(0o644)
    with pytest.raises(UnusableInput, match="can be read by others"), Campaigns(tmp_path).opened("a"):
        pass


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format":"rotoscope.campaign","version":1,"campaign":"0"}'])
def test_damaged_key_is_refused(content: bytes, tmp_path: Path) -> None:
    Campaigns(tmp_path).start("a")
    (tmp_path / "a" / "key").write_bytes(content)

    with pytest.raises(UnusableInput, match="damaged"), Campaigns(tmp_path).opened("a"):
        pass


def test_key_that_is_a_link_is_refused(tmp_path: Path) -> None:
    Campaigns(tmp_path).start("a")
    (tmp_path / "a" / "key").rename(tmp_path / "elsewhere")
    (tmp_path / "a" / "key").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnusableInput, match="cannot be used"), Campaigns(tmp_path).opened("a"):
        pass


def test_start_refuses_a_campaign_that_is_open(tmp_path: Path) -> None:
    Campaigns(tmp_path).start("a")

    with pytest.raises(UnusableInput, match="open already"):
        Campaigns(tmp_path).start("a")


def test_end_overwrites_the_key_and_leaves_nothing(tmp_path: Path) -> None:
    Campaigns(tmp_path).start("a")
    Campaigns(tmp_path).start("a.b")
    with (tmp_path / "a" / "key").open("rb") as kept:
        Campaigns(tmp_path).end("a")

        assert set(kept.read()) == {0}
    assert [path.name for path in tmp_path.iterdir()] == ["a.b"]
    with pytest.raises(UnusableInput, match="there is no campaign 'a'"):
        Campaigns(tmp_path).end("a")


def test_end_also_removes_what_an_end_that_was_killed_left(tmp_path: Path) -> None:
    Campaigns(tmp_path).start("a")
    Campaigns(tmp_path).start("b")
    (tmp_path / "a").rename(tmp_path / ".ended-0123")

    Campaigns(tmp_path).end("b")

    assert list(tmp_path.iterdir()) == []


def test_campaign_in_use_ends_only_by_force_and_says_who_uses_it(tmp_path: Path) -> None:
    campaigns = Campaigns(tmp_path)
    with campaigns.opened("a") as old:
        with pytest.raises(UnusableInput, match=f"is in use( by process {os.getpid()})?: wait, or end it with --force"):
            campaigns.end("a")
        assert [(known.name, known.is_used) for known in campaigns.known()] == [("a", True)]

        campaigns.end("a", force=True)

        with campaigns.opened("a") as new:
            assert new.key != old.key
    assert [(known.name, known.is_used) for known in campaigns.known()] == [("a", False)]


def test_campaign_that_ended_while_it_was_being_opened_begins_anew(tmp_path: Path) -> None:
    campaigns = Campaigns(tmp_path)
    campaigns.start("a")
    old = json.loads((tmp_path / "a" / "key").read_bytes())
    with ExitStack() as stack:
        held = stack.enter_context((tmp_path / "a" / "key").open("rb"))
        fcntl.flock(held, fcntl.LOCK_SH)
        campaigns.end("a", force=True)
        with campaigns.opened("a") as new:
            assert new.is_new
            assert new.key.hex() != old["key"]


@pytest.mark.parametrize("left", [[], ["domains"]])
def test_folder_of_a_campaign_that_has_lost_its_key_is_refused(left: list[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "nightly").mkdir()
    for name in left:
        (tmp_path / "nightly" / name).touch()

    with pytest.raises(UnusableInput, match="has no key: remove it"), Campaigns(tmp_path).opened("nightly"):
        pass


@pytest.mark.parametrize("room_bytes", [0, 50])
def test_key_that_a_full_disk_cuts_is_no_campaign(room_bytes: int, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, hard))
    try:
        with pytest.raises(UnusableInput, match="the campaign 'nightly' cannot be used: "):
            Campaigns(tmp_path / "campaigns").start("nightly")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert list((tmp_path / "campaigns").iterdir()) == []


def test_what_is_no_campaign_is_not_among_those_that_are_open(tmp_path: Path) -> None:
    Campaigns(tmp_path).start("nightly")
    (tmp_path / "notes").touch()
    (tmp_path / "empty").mkdir()

    assert [known.name for known in Campaigns(tmp_path).known()] == ["nightly"]


def test_domains_are_numbered_over_processes_and_locally_where_the_file_is_gone(tmp_path: Path) -> None:
    first, second, third = (bytes([i]) * 16 for i in range(3))
    with Campaigns(tmp_path).opened("a") as one, Campaigns(tmp_path).opened("a") as other:
        assert [one.domain_of(first), other.domain_of(second), one.domain_of(second), other.domain_of(first)] == [
            0,
            1,
            1,
            0,
        ]
        (tmp_path / "a" / "domains").unlink()
        assert one.domain_of(third) == 2
        assert one.domain_of(first) == 0


def test_line_of_domains_that_a_kill_cut_is_written_over(tmp_path: Path) -> None:
    with Campaigns(tmp_path).opened("a") as campaign:
        (tmp_path / "a" / "domains").write_bytes(b"00" * 16 + b"\n" + b"0123")
        assert campaign.domain_of(b"\x01" * 16) == 1

    assert (tmp_path / "a" / "domains").read_bytes() == b"00" * 16 + b"\n" + b"01" * 16 + b"\n"


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnusableInput, match="campaigns cannot be kept here"):
        Campaigns(tmp_path / "file" / "below").start("a")


def test_no_folder_is_no_campaign(tmp_path: Path) -> None:
    assert Campaigns(tmp_path / "none").known() == []
    with pytest.raises(UnusableInput, match="there is no campaign"):
        Campaigns(tmp_path / "none").end("a")


def test_folder_is_the_named_one_then_that_of_the_state() -> None:
    assert campaigns_folder({"ROTOSCOPE_CAMPAIGNS": "/x", "XDG_STATE_HOME": "/y"}) == Path("/x")
    assert campaigns_folder({"XDG_STATE_HOME": "/y"}) == Path("/y/rotoscope/campaigns")
    assert campaigns_folder({}) == Path.home() / ".local/state/rotoscope/campaigns"


def test_fresh_campaign_shows_no_key_and_numbers_domains_in_memory() -> None:
    campaign, other = Campaign(), Campaign()

    assert campaign.key != other.key
    assert campaign.key.hex() not in repr(campaign)
    assert repr(campaign.key) not in repr(campaign)
    assert [campaign.domain_of(x) for x in (b"x", b"y", b"x")] == [0, 1, 0]
    assert other.domain_of(b"y") == 0
