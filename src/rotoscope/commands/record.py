"""`rotoscope record`: run a command, and make a trace of what it does to its server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rotoscope.options import Measure, NamesFile, NoUsageRequest, TokenizerName


def record(
    command: Annotated[list[str], typer.Argument(help="The agent and its arguments.", metavar="COMMAND")],
    upstream: Annotated[
        str | None,
        typer.Option(help="Base URL of the server that the agent talks to; without it, that in OPENAI_BASE_URL."),
    ] = None,
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder for the trace.")] = Path("recordings"),
    measure: Measure = False,
    tokenizer: TokenizerName = "auto",
    campaign: Annotated[
        str | None, typer.Option(help="Campaign that the recording shares with others, so that prefixes have one id.")
    ] = None,
    names: NamesFile = None,
    no_usage_request: NoUsageRequest = False,
    each: Annotated[
        Path | None,
        typer.Option(help="File with a task a line, - for standard input: run the command for each, in place of {}."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many tasks of --each run at once.", min=1)] = 1,
    intercept: Annotated[
        bool,
        typer.Option(
            "--intercept", help="Open what the command says to inference hosts: for an address that is fixed."
        ),
    ] = False,
    intercept_host: Annotated[
        list[str] | None,
        typer.Option(help="Host to open besides, as llm.example.com, *.example.com or localhost:8443."),
    ] = None,
    intercept_mode: Annotated[
        str,
        typer.Option(help="How it is heard: regular, namespace, transparent@HOST:PORT, local:PROGRAM or upstream:URL."),
    ] = "regular",
    intercept_client_cert: Annotated[
        Path | None, typer.Option(help="Certificate and key, in PEM, for servers that want one of their client.")
    ] = None,
) -> None:
    """Run a command behind a gateway to its server and write a content-free trace of its calls.

    Example: rotoscope record --upstream http://localhost:8000/v1 -- python my_agent.py
    """
    import os

    from rotoscope.proxy.addresses import chosen_upstream
    from rotoscope.proxy.campaign import chosen_campaign
    from rotoscope.proxy.intercept.caller import act_as_caller
    from rotoscope.proxy.intercept.needs import need_mitmproxy, refuse_beside
    from rotoscope.proxy.record import RecordOptions
    from rotoscope.proxy.record import record as run
    from rotoscope.proxy.recording import Recording
    from rotoscope.proxy.standing import Standing
    from rotoscope.proxy.suite import SuiteOptions, record_each
    from rotoscope.proxy.tasks import read_tasks
    from rotoscope.recorder.campaigns import Campaign
    from rotoscope.recorder.names_file import names_file
    from rotoscope.recorder.token_counters import chosen_tokenizer
    from rotoscope.traces.errors import UnusableInput

    if jobs > 1 and each is None:
        raise UnusableInput("--jobs is for a suite of tasks: give it with --each FILE")
    if intercept:
        refuse_beside({"--upstream": upstream, "--measure": measure, "--each": each})
        need_mitmproxy()
        if intercept_mode == "namespace":
            act_as_caller()
    elif intercept_host or intercept_mode != "regular" or intercept_client_cert:
        raise UnusableInput("--intercept-host, -mode and -client-cert are for --intercept: give that too")
    counter, asks = chosen_tokenizer(tokenizer), not no_usage_request
    chosen = None if intercept else chosen_upstream(upstream, os.environ)
    with chosen_campaign(campaign, os.environ) as named:
        private = names_file(names, folder) if names else None
        if chosen is None:
            from rotoscope.proxy.intercept.record import intercepted

            status = intercepted(
                command,
                Recording(folder, named or Campaign(), counter, names=private),
                named,
                hosts=intercept_host or (),
                mode=intercept_mode,
                asks_usage=asks,
                client_cert=intercept_client_cert,
            )
        elif each is None:
            status = run(RecordOptions(command, chosen, folder, measure, named, counter, private, asks))
        else:
            how = Standing(chosen, folder, named or Campaign(), measure, counter, names=private, asks_usage=asks)
            status = record_each(SuiteOptions(command, read_tasks(each), how, jobs))
    raise typer.Exit(status)
