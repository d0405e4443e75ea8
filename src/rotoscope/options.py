"""Options that several commands have, each said once; the default is the command's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AssumeGrowth = Annotated[
    bool, typer.Option("--assume-growth", help="Assume that prompts hold the answer before, where blocks allow it.")
]
TokenizerName = Annotated[
    str,
    typer.Option(
        help="What counts where the server does not: auto, none, o200k_base, cl100k_base or a tokenizer.json.",
        envvar="ROTOSCOPE_TOKENIZER",
    ),
]
NamesFile = Annotated[
    Path | None, typer.Option(help="Private file for real names of tools, models and runs, which no trace holds.")
]
NoUsageRequest = Annotated[
    bool,
    typer.Option("--no-usage-request", help="Do not ask for the usage of response streams where the client does not."),
]
Measure = Annotated[
    bool,
    typer.Option("--measure", help="Ask the server for the token ids of each prompt, which it then gets twice."),
]
Model = Annotated[str | None, typer.Option(help="Model, if the server offers several.")]
KeyVariable = Annotated[str | None, typer.Option(help="Environment variable that holds the API key.", metavar="NAME")]
BlockSize = Annotated[int | None, typer.Option(help="Tokens a block, if not the profile's.", min=1)]
