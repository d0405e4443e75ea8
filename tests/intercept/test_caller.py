"""A recording by sudo is the caller's, and root's only where it takes root."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

import pytest

from rotoscope.proxy.intercept.caller import act_as_caller, as_root, caller_of_sudo, may_be_root

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def by_sudo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process be root whom somebody else has called."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    groups = os.getgroups()
    monkeypatch.setenv("SUDO_UID", str(NOBODY.pw_uid))
    for name in ("HOME", "USER", "LOGNAME"):
        monkeypatch.setenv(name, "root")
    yield
    os.seteuid(0)
    os.setegid(0)
    os.setgroups(groups)


@pytest.mark.usefixtures("by_sudo")
def test_it_is_root_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: True)  # this Python may be one of root's alone
    act_as_caller()
    with as_root():
        in_between = os.geteuid(), os.getegid()

    assert in_between == (0, 0)
    assert (os.geteuid(), os.getegid(), os.environ["HOME"]) == (NOBODY.pw_uid, NOBODY.pw_gid, NOBODY.pw_dir)
    assert set(os.getgroups()) <= set(os.getgrouplist(NOBODY.pw_name, NOBODY.pw_gid))
    assert may_be_root()


@pytest.mark.usefixtures("by_sudo")
def test_it_stays_root_where_the_caller_cannot_read_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = os.getgroups()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    act_as_caller()

    assert (os.geteuid(), os.getegid(), os.getgroups(), os.environ["HOME"]) == (0, 0, groups, "root")


@pytest.mark.parametrize("uid", ["", "0", "x", "4294967000"])
def test_without_somebody_who_called_sudo_nobody_is_acted_for(uid: str) -> None:
    assert caller_of_sudo({"SUDO_UID": uid}) is None
    assert caller_of_sudo({}) is None
