# SPDX-License-Identifier: GPL-2.0-only
"""The directories: the repository, and the cache for all builds and downloads."""
import contextlib
import errno
import fcntl
import os
import pathlib
import re
import shutil
import sys

from lab.errors import LabError

REPO = pathlib.Path(__file__).resolve().parent.parent


def cache():
    """HYDRA_CACHE, or 'hydra' in the user's cache directory."""
    named = os.environ.get("HYDRA_CACHE")
    if named:
        return pathlib.Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base).absolute() / "hydra"


def cache_dir(*parts):
    """A directory in the cache, made if need be."""
    path = cache().joinpath(*parts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot make the directory {path}: {error.strerror}",
                       "Set HYDRA_CACHE to a directory you can write to.") from error
    return path


def check_cache():
    """Report an unusable cache at once, not by a failed build."""
    path = cache()
    if not re.fullmatch(r"[\w./+@-]+", str(path)):
        raise LabError(f"the cache cannot be at '{path}': make and QEMU take paths of letters, digits and . / + @ _ - only",
                       "Set HYDRA_CACHE to another directory.")
    if not os.access(cache_dir(), os.R_OK | os.W_OK | os.X_OK):
        raise LabError(f"the cache {path} may not be read and written", "Set HYDRA_CACHE to a directory of your own.")


def part_of(path):
    """Where a file is written before it gets its name. Of a link, the file to which the link leads is replaced, not the link."""
    path = pathlib.Path(path).resolve()
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def is_stream(path):
    """Whether a name stands for a device or a pipe, such as /dev/stdout, which no file may replace."""
    return path.exists() and not path.is_file() and not path.is_dir()


def cannot_write(path, error):
    """The LabError for results that found no place. write_whole() has left nothing behind."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return LabError(f"cannot write {path}: {error.strerror}; nothing was written", "Free some space, or name a file on another disk.")
    return LabError(f"cannot write {path}: {error.strerror}")


def try_output(*names):
    """Report before any work that a file for results cannot be written. None: no such file requested."""
    for path in map(pathlib.Path, filter(None, names)):
        try:
            if is_stream(path):
                continue
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            part_of(path).touch()
            part_of(path).unlink()
        except OSError as error:
            raise LabError(f"cannot write {path}: {error.strerror}", status=2) from error


def write_result(path, data, what):
    """Write results of the user's, text or bytes; the file has its old content or the new one, never a part."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise cannot_write(path, error) from error
    print(f"hydra: {what} written to {path}", file=sys.stderr, flush=True)


def need_space(path, gib, purpose):
    """Refuse to start what would run out of disk."""
    free = shutil.disk_usage(path).free / 2**30
    if free < gib:
        raise LabError(f"not enough disk space to {purpose}: {free:.1f} GiB free at {path}, {gib} GiB needed",
                       "Free some space, or set HYDRA_CACHE to a directory on a larger disk.")


@contextlib.contextmanager
def locked(name):
    """One process at a time; the kernel drops the lock when the holder ends, in whatever way."""
    path = cache_dir("locks") / f"{name}.lock"
    with open(path, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"hydra: waiting for another ./hydra that holds {path} …", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_whole(path, data):
    """Write a file, text or bytes, completely or not at all."""
    path = pathlib.Path(path)
    data = data.encode() if isinstance(data, str) else data
    if is_stream(path):
        path.write_bytes(data)
        return
    part = part_of(path)
    try:
        with open(part, "wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())          # some file systems tell only now that the disk is full
        os.replace(part, path.resolve())
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def remove_parts(directory):
    """Remove what an interrupted call left unfinished (call with the lock held)."""
    for left in directory.glob(".*.part"):
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
