"""The files of a named campaign, which nobody but their owner can read, and locks on them.

- `key`: id and key.
- `domains`: keyed digests of models and what else divides caches, a line each; the number of a line is the domain's.

What cannot be done with them is an OSError; what is in them and should not be so is told as UnusableInput.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from pathlib import Path

import orjson

from rotoscope.recorder.hashing import DIGEST_BYTES, KEY_BYTES
from rotoscope.traces.errors import UnusableInput

ID_DIGITS = 16

_KEY = "key"
_DOMAINS = "domains"
_FORMAT = {"format": "rotoscope.campaign", "version": 1}
_LINE_BYTES = 2 * DIGEST_BYTES + 1


def open_key(folder: Path) -> int:
    """Open the key of a campaign to read and to lock it."""
    return os.open(folder / _KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


class Domains:
    """The cache domains of a named campaign, numbered over all its processes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _DOMAINS
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


def read_key(file: int) -> tuple[str, bytes]:
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
    if not (is_whole and len(key) == KEY_BYTES and re.fullmatch(f"[0-9a-f]{{{ID_DIGITS}}}", id_)):
        raise UnusableInput("the file of the campaign is damaged: end the campaign and start another")
    return id_, key


def write_files(folder: Path, id_: str, key: bytes) -> None:
    """Write the files of a new campaign."""
    content = orjson.dumps(_FORMAT | {"campaign": id_, "key": key.hex()}) + b"\n"
    _write_private(folder / _KEY, content)
    _write_private(folder / _DOMAINS, b"")


def _write_private(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, content) < len(content):  # a disk that fills takes a part without a word
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    finally:
        os.close(file)


def destroy(folder: Path) -> None:
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


def is_in_place(file: int, folder: Path) -> bool:
    """Tell whether the key of a campaign is still the file that was opened there."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(folder / _KEY, follow_symlinks=False))
    except FileNotFoundError:
        return False


def lacks_key(folder: Path) -> bool:
    """Tell whether a folder is there and no key in it: campaigns come into their places whole, and go whole."""
    try:
        return _KEY not in os.listdir(folder)
    except FileNotFoundError:
        return False


def locked_alone(file: int) -> bool:
    """Lock a file for oneself alone, unless somebody else holds a lock on it; tell whether it is locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holders(file: int) -> list[int]:
    """Return the processes that hold a lock on a file, as far as Linux tells."""
    status = os.fstat(file)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return []
    held = {int(lock[4]) for lock in locks if len(lock) > 5 and lock[1] == "FLOCK" and lock[5] == place}
    return sorted(process for process in held if process > 0)  # of another container it is 0
