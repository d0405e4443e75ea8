"""Recording by a gateway: agents tell it what they do beside their calls, which it hears itself."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rotoscope.recorder.marks import Mark
from rotoscope.recorder.variables import RUN_VARIABLE
from rotoscope.sdk.gateways import Gateway, named_in
from rotoscope.sdk.scopes import new_name
from rotoscope.sdk.sending import Sender


class GatewayRun:
    """A run of a gateway."""

    __slots__ = ("_environment", "_is_ours", "_sender", "name")

    def __init__(self, name: str, sender: Sender, *, is_ours: bool, environment: Mapping[str, str]) -> None:
        """Take part in the run of a name, empty for that of the gateway; one that `is_ours` ends with its agent."""
        self.name = name
        self._sender = sender
        self._is_ours = is_ours
        self._environment = environment

    def __repr__(self) -> str:
        return "GatewayRun()"

    def tell(self, mark: Mark) -> None:
        """Tell the gateway of something, soon."""
        self._sender.put(self.name, mark)

    def end(self) -> None:
        """End it behind all that was told."""
        if self._is_ours:
            self._sender.put(self.name, None)

    def environment(self) -> dict[str, str]:
        """Return what leads another process to it."""
        return {RUN_VARIABLE: self.name, **self._environment} if self.name else dict(self._environment)


class GatewayRecording:
    """Records by a gateway: each outermost agent is a run, unless all of this process is of one."""

    def __init__(self, gateway: Gateway, environment: Mapping[str, str] = {}) -> None:
        """Begin; `environment` is what leads other processes to the gateway, where theirs does not yet."""
        self.gateway = gateway
        self._environment = environment
        self._sender = Sender(gateway)

    def __repr__(self) -> str:
        return f"GatewayRecording({self.gateway!r})"

    def begin_run(self) -> GatewayRun:
        """Begin a run, or take part in the one of this process."""
        if self.gateway.has_run:
            return self._run("", is_ours=False)
        if name := named_in(os.environ, RUN_VARIABLE):
            return self._run(name, is_ours=False)
        return self._run(new_name(), is_ours=True)

    def join_run(self) -> GatewayRun:
        """Take part in the run of the process that began this one."""
        return self._run("" if self.gateway.has_run else named_in(os.environ, RUN_VARIABLE), is_ours=False)

    def flush(self, timeout_s: float) -> None:
        """Wait until everything that was told has arrived, or was given up."""
        self._sender.flush(timeout_s)

    def _run(self, name: str, *, is_ours: bool) -> GatewayRun:
        if not is_ours:
            self._sender.run_of_process = name
        return GatewayRun(name, self._sender, is_ours=is_ours, environment=self._environment)
