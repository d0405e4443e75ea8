"""Variables of the environment by which processes find what records them."""

from __future__ import annotations

RECORD_VARIABLE = "ROTOSCOPE_BASE_URL"
"""The gateway that `rotoscope record` runs before a command, as the base URL of its server."""
GATEWAY_VARIABLE = "ROTOSCOPE_GATEWAY"
"""A gateway that stands, such as `rotoscope proxy`, as the base URL of its server or by its address alone."""
TOKEN_VARIABLE = "ROTOSCOPE_TOKEN"
"""The token of that gateway: what it asks for, and what its clients bring."""
RUN_VARIABLE = "ROTOSCOPE_RUN"
"""The name of the run that a process takes part in, where it has one."""
PARENT_VARIABLE = "ROTOSCOPE_PARENT"
"""The line of calls that began a process."""
DISABLED_VARIABLE = "ROTOSCOPE_DISABLED"
"""Whether decorators and `instrument` are to do nothing."""
CALL_SPANS_VARIABLE = "ROTOSCOPE_CALL_SPANS"
"""`0` where calls to models are to have no spans of ours."""
