"""Campaigns: the key, the id and the numbers of cache domains that runs share, so that shared prefixes have one id in all.

A fresh campaign lives in this process. A named one lives in the files of a private folder of its name, so that processes
share it. Who records holds a shared lock on its key; to end the campaign takes the lock alone.

The folder comes into its place whole, by a rename, so that of many processes that start at once one wins and all use
what it wrote. The key is nowhere else. Ending a campaign overwrites the files and removes them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rotoscope.recorder.campaign_files import (
    ID_DIGITS,
    Domains,
    destroy,
    holders,
    is_in_place,
    lacks_key,
    locked_alone,
    open_key,
    read_key,
    write_files,
)
from rotoscope.recorder.hashing import new_key
from rotoscope.traces.errors import UnusableInput

FOLDER_VARIABLE = "ROTOSCOPE_CAMPAIGNS"
"""Names another folder for named campaigns."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ENDED = ".ended-"


def _stays_in_memory() -> Callable[[bytes], int]:
    numbers: dict[bytes, int] = {}
    return lambda digest: numbers.setdefault(digest, len(numbers))


@dataclass(frozen=True, slots=True)
class Campaign:
    """What the runs of a campaign share."""

    id: str = field(default_factory=lambda: secrets.token_hex(ID_DIGITS // 2))
    """Stands in traces; drawn, so it says nothing."""
    key: bytes = field(default_factory=new_key, repr=False)
    domain_of: Callable[[bytes], int] = field(default_factory=_stays_in_memory, repr=False)
    """Gives the number of a cache domain by its keyed digest; never raises."""
    is_new: bool = True
    """Whether nobody had opened it before."""


@dataclass(frozen=True, slots=True)
class KnownCampaign:
    """A named campaign that is open."""

    name: str
    is_used: bool
    """Whether recordings are running with it."""
    processes: tuple[int, ...]
    """Which ones, where the system tells."""

    def __str__(self) -> str:
        by = f" by process {', '.join(map(str, self.processes))}" if self.processes else ""
        return f"{self.name}: in use{by}" if self.is_used else f"{self.name}: open"


def campaigns_folder(environment: Mapping[str, str]) -> Path:
    """Return where named campaigns live: ROTOSCOPE_CAMPAIGNS, else below XDG_STATE_HOME, else below ~/.local/state."""
    if named := environment.get(FOLDER_VARIABLE):
        return Path(named)
    state = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rotoscope" / "campaigns"


class Campaigns:
    """The named campaigns in a private folder; every method raises UnusableInput where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Campaign]:
        """Give a campaign, which begins when nobody has begun it; it is in use while the block runs."""
        place = self._place(name)
        with self._told(name):
            lease, is_new = self._lease(place)
        try:
            with self._told(name):
                id_, key = read_key(lease)
            yield Campaign(id_, key, Domains(place).number_of, is_new)
        finally:
            os.close(lease)

    def start(self, name: str) -> None:
        """Begin a campaign, which must not be open."""
        place = self._place(name)
        with self._told(name):
            is_new = self._create(place)
        if not is_new:
            raise UnusableInput(f"the campaign {name!r} is open already: use it, or end it first")

    def known(self) -> list[KnownCampaign]:
        """Return the campaigns that are open, by name."""
        if not self._folder.is_dir():
            return []
        self._check_folder()
        names = sorted(path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name))
        return [known for name in names if (known := self._known(name)) is not None]

    def end(self, name: str, *, force: bool = False) -> None:
        """Overwrite the key and remove it; `force` does so while recordings run, which keep what they have in memory."""
        place = self._place(name)
        self._check_folder()
        with self._told(name):
            try:
                key_file = open_key(place)
            except FileNotFoundError:
                raise UnusableInput(
                    f"there is no campaign {name!r}: 'rotoscope campaign list' tells which there are"
                ) from None
            try:
                if not (locked_alone(key_file) or force):
                    raise UnusableInput(f"the campaign {name!r} is in use{_by(key_file)}: wait, or end it with --force")
                os.rename(place, self._folder / (_ENDED + secrets.token_hex(8)))
            finally:
                os.close(key_file)
            for ended in self._folder.glob(f"{_ENDED}*"):
                with contextlib.suppress(FileNotFoundError):  # another end is at it
                    destroy(ended)

    def _place(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise UnusableInput(
                f"a campaign cannot be named {name!r}: take up to 64 letters, digits, dots, hyphens and underscores, "
                "the first a letter or a digit"
            )
        return self._folder / name

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnusableInput(f"{self._folder}: the campaign {name!r} cannot be used: {error.strerror}") from error

    def _known(self, name: str) -> KnownCampaign | None:
        """Return a campaign, None where it is none, or has just ended."""
        with self._told(name):
            try:
                file = open_key(self._place(name))
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                is_used = not locked_alone(file)
                return KnownCampaign(name, is_used, tuple(holders(file)) if is_used else ())
            finally:
                os.close(file)

    def _lease(self, place: Path) -> tuple[int, bool]:
        """Lock the key of a campaign that is in its place; return it, and whether it was made for that."""
        while True:
            is_new = self._create(place)
            try:
                file = open_key(place)
            except FileNotFoundError:
                if lacks_key(place):
                    raise UnusableInput(f"{place}: the folder of a campaign has no key: remove it") from None
                continue  # ended since then
            try:
                fcntl.flock(file, fcntl.LOCK_SH)
                if is_in_place(file, place):
                    return file, is_new
            except BaseException:  # an interruption too: no lock may outlive this
                os.close(file)
                raise
            os.close(file)

    def _create(self, place: Path) -> bool:
        """Put a new campaign in its place unless there is one; tell whether it was."""
        self._make_folder()
        if place.exists():
            return False
        fresh = self._folder / f".{secrets.token_hex(8)}"
        fresh.mkdir(mode=0o700)
        try:
            write_files(fresh, Campaign().id, new_key())
            os.rename(fresh, place)
        except OSError as error:
            destroy(fresh)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # somebody else was first
                return False
            raise
        return True

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UnusableInput(f"{self._folder}: campaigns cannot be kept here: {error.strerror}") from error
        self._check_folder()

    def _check_folder(self) -> None:
        """See that nobody else can look into the folder, if there is one."""
        try:
            status = self._folder.stat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UnusableInput(f"{self._folder}: campaigns cannot be kept here: {error.strerror}") from error
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise UnusableInput(
                f"{self._folder}: keys are kept in a folder that is yours alone: chmod 700, or name another one "
                f"in {FOLDER_VARIABLE}"
            )


def _by(file: int) -> str:
    processes = holders(file)
    return f" by process {', '.join(map(str, processes))}" if processes else ""
