"""No crash writes the memory of a process to disk, which holds prompts while calls are open."""

from __future__ import annotations

import resource

_NEITHER_FILE_NOR_PIPE = 1
"""Bytes: too few for a file. Linux hands a dump to the program that collects them, where there is one, whatever the limit
is, 0 too, but for 1 (core(5), and `do_coredump` of the kernel)."""


def keep_prompts_off_the_disk() -> None:
    """Let this process leave no core dump, nor those that it starts from here on, unless they set a limit of their own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    least = _NEITHER_FILE_NOR_PIPE if hard == resource.RLIM_INFINITY else min(_NEITHER_FILE_NOR_PIPE, hard)
    if soft != least:
        resource.setrlimit(resource.RLIMIT_CORE, (least, hard))
