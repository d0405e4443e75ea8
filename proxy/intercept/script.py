"""The recorder as a script of mitmproxy's own programs: `mitmdump -q -s "$(python -m rotoscope.proxy.intercept)"`.

Its options are mitmproxy's: `--set rotoscope_output=FOLDER` and so on. Runs are told apart, and end, as with
`rotoscope proxy`; all traces are there when the program has ended.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path

import certifi
from mitmproxy import ctx
from mitmproxy.addonmanager import Loader
from mitmproxy.exceptions import OptionsError

from rotoscope.proxy.campaign import chosen_campaign
from rotoscope.proxy.core_dumps import keep_prompts_off_the_disk
from rotoscope.proxy.intercept.addon import Interceptor
from rotoscope.proxy.intercept.again import sending_again
from rotoscope.proxy.intercept.harmless import OPTIONS, EndsBroken, LeavesRoom, be_harmless
from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts
from rotoscope.proxy.recording import Recording, recording
from rotoscope.proxy.standing import DRAIN_S
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.numbered_files import claim
from rotoscope.recorder.recorded_run import Finished
from rotoscope.recorder.telling import about_in_one_line, say
from rotoscope.recorder.token_counters import Tokenizer, chosen_tokenizer
from rotoscope.traces.errors import UnusableInput

_log = logging.getLogger(__name__)

IDLE_S = 300.0


class RecordsRuns:
    """Record as long as mitmproxy runs."""

    def __init__(self) -> None:
        self._open = contextlib.AsyncExitStack()
        self._interceptor: Interceptor | None = None
        self._hosts = Hosts()
        self._tokenizer: Tokenizer | None = None
        self._idle_s = IDLE_S
        self._is_usable = True

    def load(self, loader: Loader) -> None:
        """Add options."""
        loader.add_option("rotoscope_output", str, "recordings", "Folder for the traces.")
        loader.add_option("rotoscope_hosts", Sequence[str], [], "Hosts to open besides the known inference hosts.")
        loader.add_option("rotoscope_campaign", str, "", "Campaign that the runs share with other recordings.")
        loader.add_option("rotoscope_tokenizer", str, "auto", "What counts where the server does not.")
        loader.add_option(
            "rotoscope_idle", str, f"{IDLE_S:g}", "Seconds without a request after which a run has ended."
        )
        self._take_given()

    def _take_given(self) -> None:
        """Take what was given for our options, as mitmproxy says nothing where it cannot, and goes on without us."""
        given = ctx.options.deferred
        try:
            ctx.options.process_deferred()
            if unknown := list(filter(_is_ours, given)):
                known = ", ".join(sorted(filter(_is_ours, ctx.options.keys())))
                raise OptionsError(f"there is no option {unknown[0]}: give one of {known}")
        except OptionsError as error:
            self._refuse(error)
            for name in list(filter(_is_ours, given)):
                del given[name]  # or else mitmproxy stumbles over them itself

    def configure(self, updated: set[str]) -> None:
        """Read options; what cannot be used ends the program."""
        try:
            if "rotoscope_hosts" in updated:
                self._hosts = chosen_hosts(ctx.options.rotoscope_hosts)
            if "rotoscope_tokenizer" in updated:
                self._tokenizer = chosen_tokenizer(ctx.options.rotoscope_tokenizer)
            if "rotoscope_idle" in updated:
                self._idle_s = _seconds(ctx.options.rotoscope_idle)
        except UnusableInput as error:
            self._refuse(error)

    async def running(self) -> None:
        """Begin."""
        try:
            await self._begin()
        except UnusableInput as error:
            self._refuse(error)

    async def _begin(self) -> None:
        if not self._is_usable:
            return
        if not ctx.options.allow_hosts and not ctx.options.ignore_hosts:
            ctx.options.update(allow_hosts=self._hosts.regexes)
        campaign = self._open.enter_context(chosen_campaign(ctx.options.rotoscope_campaign or None, os.environ))
        claim(_folder()).give_up()
        how = Recording(
            _folder(),
            campaign or Campaign(),
            self._tokenizer,
            by_session=True,
            idle_s=self._idle_s,
        )
        runs, counting = await self._open.enter_async_context(recording(how, finished=_tell, notice=_log.warning))
        keep_prompts_off_the_disk()
        logging.getLogger("mitmproxy.proxy.server").setLevel(
            logging.CRITICAL
        )  # it repeats parts of what it cannot read
        again = await self._open.enter_async_context(sending_again(_trusted(), None)) if _reaches_servers() else None
        self._interceptor = Interceptor(runs, self._hosts, notice=_log.warning, counting=counting, again=again)
        be_harmless()
        ctx.options.update(**{name: OPTIONS[name] for name in ("tcp_timeout",) if name in ctx.options})
        ctx.master.addons.add(LeavesRoom(), EndsBroken(), self._interceptor)
        say(f"recording what is said to inference hosts to {how.folder}")

    def _refuse(self, error: UnusableInput | OptionsError) -> None:
        """Say what cannot be used, as an error that ends the program where it is said before that listens."""
        if self._is_usable:
            _log.error("%s", error)
        self._is_usable = False

    async def done(self) -> None:
        """End, and write all traces."""
        if self._interceptor is not None:
            await self._interceptor.stop(drain_s=DRAIN_S)
        await self._open.aclose()


def _is_ours(option: str) -> bool:
    return option.startswith("rotoscope_")


def _folder() -> Path:
    return Path(ctx.options.rotoscope_output).expanduser()


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 1 <= (seconds := float(text)) < math.inf:
            return seconds
    raise UnusableInput(f"rotoscope_idle={text} is no time: expected a number of seconds, 1 or more")


def _reaches_servers() -> bool:
    """Tell whether servers are reached without another proxy, and verified."""
    return not (ctx.options.ssl_insecure or any(mode.startswith("upstream") for mode in ctx.options.mode))


def _trusted() -> str:
    """Return the file of authorities by which mitmproxy verifies servers."""
    return ctx.options.ssl_verify_upstream_trusted_ca or certifi.where()


def _tell(finished: Finished, _: str) -> None:
    if finished.path or finished.trouble:
        say(about_in_one_line(finished))


addons = [RecordsRuns()]
