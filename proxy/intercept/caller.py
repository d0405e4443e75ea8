"""Who called sudo: a recording is that person's, and only what takes root is done as root.

So traces, campaigns and private files are those of the person, as without sudo.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sysconfig
from collections.abc import Iterator, Mapping


def caller_of_sudo(environment: Mapping[str, str]) -> pwd.struct_passwd | None:
    """Return who called sudo, None where it was nobody."""
    uid = environment.get("SUDO_UID", "0")
    if not uid.isdecimal() or uid == "0":
        return None
    try:
        return pwd.getpwuid(int(uid))
    except KeyError:
        return None


def home_of(person: pwd.struct_passwd) -> dict[str, str]:
    """Return the variables that say who a person is."""
    return {"HOME": person.pw_dir, "USER": person.pw_name, "LOGNAME": person.pw_name}


def act_as_caller() -> None:
    """Let this process go on as who called sudo; it is root again within `as_root`.

    It stays root where nobody called sudo, or where that person cannot read this program.
    """
    caller = caller_of_sudo(os.environ)
    if caller is None or os.geteuid() != 0:
        return
    ours = (__file__, contextlib.__file__, sysconfig.get_path("purelib"))
    groups, group = os.getgroups(), os.getegid()
    os.initgroups(caller.pw_name, caller.pw_gid)
    os.setegid(caller.pw_gid)
    os.seteuid(caller.pw_uid)
    if all(os.access(path, os.R_OK, effective_ids=True) for path in ours):
        os.environ.update(home_of(caller))
        return
    os.seteuid(0)
    os.setegid(group)
    os.setgroups(groups)


def may_be_root() -> bool:
    """Tell whether this process is root, or may be again."""
    return 0 in os.getresuid()


@contextlib.contextmanager
def as_root() -> Iterator[None]:
    """Be root for as long as the block runs. Raises OSError where this may not be."""
    user, group = os.geteuid(), os.getegid()
    os.seteuid(0)
    os.setegid(os.getgid())
    try:
        yield
    finally:
        os.setegid(group)
        os.seteuid(user)
