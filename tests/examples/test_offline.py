import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples import offline
from examples.offline import environment

ROOT = Path(__file__).parents[2]
ASK = """
import json, os, time, urllib.request
body = {"model": "rotoscope-simulator", "messages": [{"role": "user", "content": "Hello"}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
print(json.dumps([os.environ["OPENAI_BASE_URL"], said]), flush=True)
time.sleep(60)
"""


def test_the_command_finds_the_scripted_model_and_where_it_is_ended_nothing_is_left_running() -> None:
    command = [sys.executable, "-m", "examples.offline", "--speed", "max", "--", "python", "-c", ASK]

    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        url, said = json.loads(process.stdout.readline())
        assert "of none of the agents" in said
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=10):
            process.terminate()
            assert process.wait(timeout=60) == 128 + signal.SIGTERM
        assert process.stdout.read() == ""  # the command has ended too

    with pytest.raises(ConnectionRefusedError), socket.create_connection((address.hostname, address.port), timeout=10):
        pass


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve nothing."""
    monkeypatch.setattr(offline, "serving", lambda *options: contextlib.nullcontext("http://127.0.0.1:1/v1"))


@pytest.mark.usefixtures("served")
def test_the_exit_status_of_the_command_is_passed_on() -> None:
    assert offline.main(["--", "sh", "-c", "exit 7"]) == 7


@pytest.mark.usefixtures("served")
def test_a_command_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert offline.main(["--", "no-such-command"]) == 2

    assert "error: the command 'no-such-command' cannot be started: " in capsys.readouterr().err


def test_a_simulator_that_does_not_start_is_told_in_its_own_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert offline.main(["--speed", "abc", "--", "sh", "-c", "echo ran"]) == 2

    out, err = capfd.readouterr()
    assert (out, err) == ("", "error: speed 'abc' is neither a number nor 'max'\n")


def test_no_key_and_no_proxy_of_the_user_reaches_the_command() -> None:
    given = {"OPENAI_API_KEY": "sk-mine", "HTTP_PROXY": "http://proxy", "NO_PROXY": "example.org", "PATH": "bin"}

    made = environment("http://127.0.0.1:1/v1", given)

    assert "sk-mine" not in json.dumps(made)
    assert made["OPENAI_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert made["NO_PROXY"] == made["no_proxy"] == "example.org,127.0.0.1"
    assert made["PATH"].split(":") == [str(Path(sys.executable).parent), "bin"]
