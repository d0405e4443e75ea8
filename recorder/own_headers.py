"""Headers by which clients tell a gateway what a request is of; they go no further."""

from __future__ import annotations

RUN_HEADER = "x-rotoscope-run"
"""The name of its run."""
BRANCH_HEADER = "x-rotoscope-branch"
"""The line of calls that it stands on."""
PARENT_HEADER = "x-rotoscope-parent"
"""The line that began that one."""
TOKEN_HEADER = "x-rotoscope-token"
"""The token of a gateway that asks for one."""
