"""Runs an agent as a program that records itself; the packages of rotoscope come behind the client's own.

Run: python alone.py AGENT, with RECORDINGS, SERVER and, for what is not in the client's environment, PACKAGES.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

sys.path += os.environ["PACKAGES"].split(os.pathsep)

from rotoscope import instrument

agent = Path(sys.argv[1])
instrument(folder=os.environ["RECORDINGS"])
os.environ["OPENAI_BASE_URL"] = os.environ["ROTOSCOPE_BASE_URL"] = os.environ["SERVER"] + "/v1"
os.environ["ANTHROPIC_BASE_URL"] = os.environ["SERVER"]
sys.path[0] = str(agent.parent)
sys.argv = sys.argv[1:]
runpy.run_path(str(agent), run_name="__main__")
