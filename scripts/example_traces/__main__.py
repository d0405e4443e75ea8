"""Record the traces in examples/traces anew, with the real coding agents and a scripted server (`make example-traces`).

    python -m scripts.example_traces FOLDER_OF_AGENTS

1. Each play is recorded by `rotoscope record`, all as one campaign, so that a system prompt has one id in all traces.
2. They are published as one corpus: times rounded, ids made anew, audited.
3. Each gets a name that says what it is; the table of the README is written anew.

Nothing in examples/traces changes before all is recorded.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from rotoscope.recorder.campaigns import Campaigns
from rotoscope.traces.formats.recognise import open_traces
from rotoscope.traces.publish import PublishOptions, publish
from scripts.example_traces.catalogue import EXAMPLES
from scripts.example_traces.recording import CAMPAIGN, CAMPAIGNS, NAMES, record
from scripts.example_traces.table import FOLDER, table, with_table

LISTS = Path(__file__).parents[1] / "coding_agents"
VERSIONS = re.compile(r"(<!-- begin versions -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
SEED = 1
"""Of the ids: the same recordings give the same files."""
OUR_WORDS = {"agent"}
"""Also the name of a tool; a wait is of this kind."""


def main(agents: Path) -> None:
    """Record, publish, and put in place."""
    with TemporaryDirectory(prefix="example-traces-") as name:
        folder = Path(name)
        recorded = []
        for example in EXAMPLES:
            print(f"recording {example.file}", flush=True)
            recorded.append(record(example, agents=agents, folder=folder))
        Campaigns(folder / CAMPAIGNS).end(CAMPAIGN)
        done = publish(open_traces(recorded), folder / "corpus", PublishOptions(seed=SEED))
        written = [folder / "corpus" / file for file in done.files]
        check_names(written, (folder / NAMES).read_text().splitlines())
        put_in_place(written)
    write_readme()


def check_names(written: Iterable[Path], names: Iterable[str]) -> None:
    """Raise AssertionError where a model, a tool or an agent is named in a trace."""
    told = [json.loads(line) for line in names]
    values = {value for line in told for value in [*line["models"].values(), *line["tools"].values()]}
    values |= {value for line in told for agents in line["branches"].values() for value in agents}
    for path in written:
        text = path.read_text()
        named = [value for value in values - OUR_WORDS if json.dumps(value) in text]
        assert named == [], f"{path.name} holds {named}"


def put_in_place(written: Iterable[Path]) -> None:
    """Take the place of the traces that there are; the order in which they are numbered is that of the catalogue."""
    for agent in {example.agent for example in EXAMPLES}:
        shutil.rmtree(FOLDER / agent, ignore_errors=True)
    for example, path in zip(EXAMPLES, written, strict=True):
        place = FOLDER / example.file
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, place)


def write_readme() -> None:
    """Write the table, and with which versions of the agents and when it was recorded."""
    readme = FOLDER / "README.md"
    today = datetime.datetime.now(datetime.UTC).date()
    body = ", ".join(f"{name} {version(name)}" for name in dict.fromkeys(example.agent for example in EXAMPLES))
    text = with_table(readme.read_text(), table(FOLDER, {example.file: example.shows for example in EXAMPLES}))
    readme.write_text(VERSIONS.sub(lambda found: f"{found[1]}Recorded on {today} with {body}.\n{found[3]}", text))


def version(name: str) -> str:
    """Return the version that an agent is installed in."""
    (pinned,) = json.loads((LISTS / name / "package.json").read_text())["dependencies"].values()
    return str(pinned)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).absolute())
