"""Recording in a network namespace, from a host that is one itself and has a firewall that forwards nothing."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from intercept.fronts import Certificates, new_certificates
from intercept.processes import ran

from rotoscope.proxy.intercept.namespace import Namespace, resolvers
from rotoscope.traces import load
from rotoscope.traces.errors import UnusableInput

HERE = Path(__file__).parent
API, OTHER, SERVER = "api.hard-wired.example", "other.example", "203.0.113.7"
MADE = Namespace("rotoscope-12", "rs12", IPv4Network("198.18.0.0/30"))
TWICE = "state >before; {} state >after"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return new_certificates(tmp_path_factory.mktemp("certificates") / "made", [API, OTHER])


def on_a_host(test: str, folder: Path, python: Path, certificates: Certificates) -> subprocess.CompletedProcess[str]:
    """Do something in shell on a host of its own."""
    need_namespaces()
    (folder / "hosts").write_text(f"{SERVER} {API} {OTHER}\n")
    variables = {
        "API": API,
        "CERTIFICATE": str(certificates.certificate),
        "CLIENTS": str(python),
        "HERE": str(HERE),
        "KEY": str(certificates.key),
        "OTHER": OTHER,
        "ROTOSCOPE": str(Path(sys.executable).with_name("rotoscope")),
        "ROTOSCOPE_TOKENIZER": "none",
        "SCRIPT": str(HERE.parents[1] / "examples/transparent/record.sh"),
        "SERVER": SERVER,
        "SSL_CERT_FILE": str(certificates.authority),
        "TEST": test,
        "TMPDIR": str(folder),
    }
    heard = ["env", "--default-signal=INT,TERM,HUP"]  # whoever runs the tests in the background ignores some of them
    command = [*heard, "unshare", "--net", "--mount", "sh", "-eu", str(HERE / "host.sh")]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()} | variables
    return ran(command, cwd=folder, env=environment)


def need_namespaces() -> None:
    programs = ("ip", "iptables", "unshare", "nsenter")
    try:
        is_able = os.geteuid() == 0 and all(map(shutil.which, programs))
        is_able = is_able and subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode == 0
    except OSError:
        is_able = False
    if not is_able and os.environ.get("CI") == "true":
        pytest.fail(f"network namespaces cannot be made here: they need root and {', '.join(programs)}")
    if not is_able:
        pytest.skip("network namespaces cannot be made here: they need root, iproute2 and iptables")


@pytest.fixture(scope="module")
def recorded(python: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an agent was recorded that knows of no proxy; what it said is in `said`."""
    folder = tmp_path_factory.mktemp("recorded")
    done = on_a_host(TWICE.format("agent >said;"), folder, python, certificates)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_client_that_knows_of_no_proxy_is_recorded_over_both_versions_of_http(recorded: Path) -> None:
    (path,) = (recorded / "recordings").iterdir()

    calls = list(load(path).calls())

    assert json.loads((recorded / "said").read_text())["spoken"] == ["1.1", "2"]
    assert [(call.prompt_tokens, call.completion_tokens) for call in calls] == [(20, 5), (20, 5)]


def test_all_else_passes_as_it_is(recorded: Path, certificates: Certificates) -> None:
    said = json.loads((recorded / "said").read_text())

    assert said["other"] == certificates.fingerprint
    assert said["api"] != certificates.fingerprint
    assert said["greeting"] == "hello"


def test_nothing_is_left_on_the_host(recorded: Path) -> None:
    before = (recorded / "before").read_text()

    assert (recorded / "after").read_text() == before
    assert "-A FORWARD -s 192.0.2.1/32 -j DROP" in before


@pytest.mark.parametrize("signal", ["INT", "TERM", "HUP"])
def test_nothing_is_left_when_a_signal_ends_it(
    signal: str, tmp_path: Path, python: Path, certificates: Certificates
) -> None:
    waits = f"record sh -c 'kill -{signal} $PPID; exec sleep infinity' || echo $?;"
    done = on_a_host(TWICE.format(waits), tmp_path, python, certificates)

    assert done.stdout.strip() == str(128 + {"INT": 2, "TERM": 15, "HUP": 1}[signal]), done.stderr
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_nothing_is_left_when_a_step_fails(tmp_path: Path, python: Path, certificates: Certificates) -> None:
    real = shutil.which("iptables")
    broken = tmp_path / "bin/iptables"
    broken.parent.mkdir()
    broken.write_text(
        f'#!/bin/sh\ncase "$*" in *"-I "*REDIRECT*) echo no such rule >&2; exit 3 ;; esac\nexec {real} "$@"\n'
    )
    broken.chmod(0o755)
    fails = 'PATH="$PWD/bin:$PATH" record touch began || echo $?;'
    done = on_a_host(TWICE.format(fails), tmp_path, python, certificates)

    assert done.stdout.strip() == "2"
    assert "no network namespace can be made: iptables" in done.stderr
    assert "no such rule" in done.stderr
    assert not (tmp_path / "began").exists()
    assert list((tmp_path / "recordings").iterdir()) == []
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_what_a_killed_recording_leaves_the_next_one_takes_away(
    tmp_path: Path, python: Path, certificates: Certificates
) -> None:
    killed = "record sh -c 'kill -KILL $PPID' || true; state >killed; record true;"
    done = on_a_host(TWICE.format(killed), tmp_path, python, certificates)

    assert done.returncode == 0, done.stderr
    assert "rotoscope-" in (tmp_path / "killed").read_text()
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_two_recordings_at_once_do_not_end_each_other(tmp_path: Path, python: Path, certificates: Certificates) -> None:
    both = "record sh -c 'until [ -e one ]; do sleep 0.02; done' & record true; cat /proc/sys/net/ipv4/ip_forward;"
    done = on_a_host(TWICE.format(f"{both} touch one; wait $!;"), tmp_path, python, certificates)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_what_is_recorded_by_sudo_belongs_to_who_called_it(python: Path, certificates: Certificates) -> None:
    need_namespaces()
    nobody = pwd.getpwnam("nobody")
    acting = (
        "import os; from rotoscope.proxy.intercept.caller import act_as_caller; act_as_caller(); os._exit(os.geteuid())"
    )
    by_sudo = os.environ | {"SUDO_UID": str(nobody.pw_uid)}
    if not subprocess.run([sys.executable, "-c", acting], env=by_sudo, check=False).returncode:
        pytest.skip("this environment can be read by root alone")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        os.chown(name, nobody.pw_uid, nobody.pw_gid)
        said = f"SUDO_UID={nobody.pw_uid} record sh -c 'id -un; stat -c %u recordings recordings/*';"
        done = on_a_host(TWICE.format(said), Path(name), python, certificates)
        before, after = (Path(name, file).read_text() for file in ("before", "after"))

    assert done.stdout.split() == ["nobody", str(nobody.pw_uid), str(nobody.pw_uid)], done.stderr
    assert before == after


def test_a_command_runs_as_who_called_sudo() -> None:
    nobody = pwd.getpwnam("nobody")

    command, environment = MADE.entered(
        ["sh", "-c", "id"], {"PATH": os.environ["PATH"], "SUDO_UID": str(nobody.pw_uid)}
    )

    in_it = ["netns", "exec", "rotoscope-12"]
    as_nobody = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--init-groups", "--"]
    assert (Path(command[0]).name, Path(command[4]).name) == ("ip", "setpriv")
    assert [*command[1:4], *command[5:]] == [*in_it, *as_nobody, "sh", "-c", "id"]
    assert (environment["USER"], environment["HOME"]) == ("nobody", nobody.pw_dir)


def test_a_command_of_root_runs_as_root() -> None:
    command, _ = MADE.entered(["sh"], {"PATH": os.environ["PATH"]})

    assert command[1:] == ["netns", "exec", "rotoscope-12", "sh"]


def test_a_command_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnusableInput, match="the command 'no-such-command' cannot be started"):
        MADE.entered(["no-such-command"], {"PATH": os.environ["PATH"]})


def test_a_resolver_beyond_loopback_is_taken_as_it_is(tmp_path: Path) -> None:
    stub, real = tmp_path / "stub", tmp_path / "real"
    stub.write_text("nameserver 127.0.0.53\n")
    real.write_text("# of the network\nnameserver 192.0.2.53\n")

    assert resolvers([real, stub]) == (real.read_text(), None)
    assert resolvers([tmp_path / "none", real]) == (real.read_text(), None)


def test_a_resolver_of_the_loopback_has_to_be_led_to(tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.write_text("nameserver ::1\nnameserver 127.0.0.53\n")

    assert resolvers([stub]) == ("", "127.0.0.53")
