"""Campaigns: the key, the id and the numbers of cache domains that runs share, so that shared prefixes have one id in all.

A fresh campaign lives in this process. A named one lives in a private folder of its name, so that processes share it:

- `key`: id and key. Who records holds a shared lock on it; to end the campaign takes the lock alone.
- `domains`: keyed digests of models and what else divides caches, a line each; the number of a line is the domain's.

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

import orjson

from rotoscope.recorder.hashing import DIGEST_BYTES, KEY_BYTES, new_key
from rotoscope.traces.errors import UnusableInput

FOLDER_VARIABLE = "ROTOSCOPE_CAMPAIGNS"
"""Names another folder for named campaigns."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = "key"
_DOMAINS = "domains"
_ENDED = ".ended-"
_FORMAT = {"format": "rotoscope.campaign", "version": 1}
_ID_DIGITS = 16
_LINE_BYTES = 2 * DIGEST_BYTES + 1
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def _stays_in_memory() -> Callable[[bytes], int]:
    numbers: dict[bytes, int] = {}
    return lambda digest: numbers.setdefault(digest, len(numbers))


@dataclass(frozen=True, slots=True)
class Campaign:
    """What the runs of a campaign share."""

    id: str = field(default_factory=lambda: secrets.token_hex(_ID_DIGITS // 2))
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
                id_, key = _read(lease)
            yield Campaign(id_, key, _Domains(place / _DOMAINS).number_of, is_new)
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
                key_file = os.open(place / _KEY, _READ)
            except FileNotFoundError:
                raise UnusableInput(
                    f"there is no campaign {name!r}: 'rotoscope campaign list' tells which there are"
                ) from None
            try:
                if not (_locked_alone(key_file) or force):
                    raise UnusableInput(f"the campaign {name!r} is in use{_by(key_file)}: wait, or end it with --force")
                os.rename(place, self._folder / (_ENDED + secrets.token_hex(8)))
            finally:
                os.close(key_file)
            for ended in self._folder.glob(f"{_ENDED}*"):
                with contextlib.suppress(FileNotFoundError):  # another end is at it
                    _destroy(ended)

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
                file = os.open(self._place(name) / _KEY, _READ)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                is_used = not _locked_alone(file)
                return KnownCampaign(name, is_used, tuple(_holders(file)) if is_used else ())
            finally:
                os.close(file)

    def _lease(self, place: Path) -> tuple[int, bool]:
        """Lock the key of a campaign that is in its place; return it, and whether it was made for that."""
        while True:
            is_new = self._create(place)
            try:
                file = os.open(place / _KEY, _READ)
            except FileNotFoundError:
                if _lacks_key(place):
                    raise UnusableInput(f"{place}: the folder of a campaign has no key: remove it") from None
                continue  # ended since then
            try:
                fcntl.flock(file, fcntl.LOCK_SH)
                if _is_in_place(file, place / _KEY):
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
        content = orjson.dumps(_FORMAT | {"campaign": Campaign().id, "key": new_key().hex()}) + b"\n"
        try:
            _write_private(fresh / _KEY, content)
            _write_private(fresh / _DOMAINS, b"")
            os.rename(fresh, place)
        except OSError as error:
            _destroy(fresh)
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


class _Domains:
    """The cache domains of a named campaign, numbered over all its processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers: dict[bytes, int] = {}

    def number_of(self, digest: bytes) -> int:
        """Return the number of a domain. Where the file cannot be used it is one that no other domain of this run has."""
        if digest not in self._numbers:
            try:
                self._numbers |= self._entered(digest)
            except OSError:
                self._numbers[digest] = max(self._numbers.values(), default=-1) + 1
        return self._numbers[digest]

    def _entered(self, digest: bytes) -> dict[bytes, int]:
        """Return all domains, this one among them."""
        file = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size // _LINE_BYTES * _LINE_BYTES
            lines = [bytes.fromhex(line.decode()) for line in os.pread(file, size, 0).split()]
            if digest not in lines:
                os.pwrite(file, digest.hex().encode() + b"\n", size)
                lines.append(digest)
        except ValueError as error:
            raise OSError("the domains of the campaign are damaged") from error
        finally:
            os.close(file)
        return {line: number for number, line in enumerate(lines)}


def _read(file: int) -> tuple[str, bytes]:
    """Return id and key from a file that must be private."""
    status = os.fstat(file)
    is_private = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
    if not (stat.S_ISREG(status.st_mode) and is_private):
        raise UnusableInput("the key of the campaign can be read by others: end the campaign and start another")
    try:
        content = orjson.loads(os.pread(file, 4096, 0))
        id_, key = str(content["campaign"]), bytes.fromhex(content["key"])
        is_whole = all(content[name] == value for name, value in _FORMAT.items())
    except (ValueError, TypeError, KeyError):
        is_whole, id_, key = False, "", b""
    if not (is_whole and len(key) == KEY_BYTES and re.fullmatch(f"[0-9a-f]{{{_ID_DIGITS}}}", id_)):
        raise UnusableInput("the file of the campaign is damaged: end the campaign and start another")
    return id_, key


def _write_private(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, content) < len(content):  # a disk that fills takes a part without a word
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    finally:
        os.close(file)


def _destroy(folder: Path) -> None:
    """Overwrite the files of a campaign and remove them."""
    for path in folder.iterdir():
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(file, bytes(os.fstat(file).st_size), 0)
            os.fsync(file)
        finally:
            os.close(file)
        path.unlink()
    folder.rmdir()


def _is_in_place(file: int, path: Path) -> bool:
    """Tell whether a path still leads to a file that was opened there."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _lacks_key(place: Path) -> bool:
    """Tell whether a folder is there and no key in it: campaigns come into their places whole, and go whole."""
    try:
        return _KEY not in os.listdir(place)
    except FileNotFoundError:
        return False


def _locked_alone(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _by(file: int) -> str:
    processes = _holders(file)
    return f" by process {', '.join(map(str, processes))}" if processes else ""


def _holders(file: int) -> list[int]:
    """Return the processes that hold a lock on a file, as far as Linux tells."""
    status = os.fstat(file)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return []
    held = {int(lock[4]) for lock in locks if len(lock) > 5 and lock[1] == "FLOCK" and lock[5] == place}
    return sorted(process for process in held if process > 0)  # of another container it is 0
