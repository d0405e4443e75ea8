import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from examples.offline import environment

ROOT = Path(__file__).parents[2]
ASK = """
import sys
from openai import OpenAI
said = OpenAI().chat.completions.create(model="rotoscope-simulator", messages=[{"role": "user", "content": "Hello"}])
print(said.choices[0].message.content)
sys.exit(7)
"""


def test_the_command_finds_the_scripted_model_and_its_exit_status_is_passed_on() -> None:
    command = [sys.executable, "-m", "examples.offline", "--speed", "max", "--", "python", "-c", ASK]

    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)

    assert "of none of the agents" in done.stdout
    assert done.returncode == 7


def test_a_command_that_there_is_not_is_told() -> None:
    command = [sys.executable, "-m", "examples.offline", "--", "no-such-command"]

    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)

    assert done.stderr.splitlines()[-1].startswith("the command cannot be run: ")
    assert done.returncode == 127


def test_where_it_is_ended_nothing_is_left_running() -> None:
    tell = "import os, time; print(os.environ['OPENAI_BASE_URL'], flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "examples.offline", "--", "python", "-c", tell]

    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        with socket.create_connection((address.hostname, address.port), timeout=10):
            process.terminate()
            assert process.wait(timeout=60) == 128 + signal.SIGTERM
        assert process.stdout.read() == ""  # the command has ended too

    with pytest.raises(ConnectionRefusedError), socket.create_connection((address.hostname, address.port), timeout=10):
        pass


def test_no_key_and_no_proxy_of_the_user_reaches_the_command() -> None:
    given = {"OPENAI_API_KEY": "sk-mine", "HTTP_PROXY": "http://proxy", "NO_PROXY": "example.org", "PATH": "bin"}

    made = environment("http://127.0.0.1:1/v1", given)

    assert "sk-mine" not in json.dumps(made)
    assert made["OPENAI_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert made["NO_PROXY"] == made["no_proxy"] == "example.org,127.0.0.1"
    assert made["PATH"].split(":") == [str(Path(sys.executable).parent), "bin"]
