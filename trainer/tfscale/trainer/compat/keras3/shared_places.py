"""Files that all workers of MultiWorkerMirroredStrategy write at the same path, as they run the same script.

In a folder that the workers share, the chief's file stays, and another worker's never replaces it. Where a worker has
the place to itself (a disk of its own, or another path, as in TensorFlow's guide), its file stays there. All write
beside the place and then move, so that nobody meets half a file, or HDF5's lock on it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BEGUN = time.time()
"""Time of this run's begin: an older file belongs to another run."""
_BEHIND = 30.0
"""Seconds by which the chief may finish a file later than another worker. With less, the worker's own copy
would be removed while the chief's file is not in place yet; with more, copies take room on the disk for longer."""
_Identity = tuple[int, int]

_cluster: Any = None
"""Strategy that this process shares with other workers, None until the strategy is made."""
_put: dict[Path, _Identity] = {}
"""Files that this worker has put in place, with their state at that time."""
_kept: dict[Path, Path] = {}
"""This worker's own copies of its newest files, where the chief has put or will put its own file in place."""
_owned: dict[Path, bool] = {}
"""Answers of `is_own` by path: a path that is written again keeps its owner."""
_is_apart = False


def watch(tensorflow: Any) -> None:
    """Remember the strategy that makes this process one of several workers."""
    kind = tensorflow.distribute.MultiWorkerMirroredStrategy
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        global _cluster
        make(self, *args, **kwargs)
        if self.extended._in_multi_worker_mode():
            _cluster = self

    kind.__init__ = made


def is_chief() -> bool:
    """Return whether this process is the chief of several workers."""
    return _cluster is not None and bool(_cluster.extended.should_checkpoint)


def is_follower() -> bool:
    """Return whether this process is one of several workers, and not the chief."""
    return _cluster is not None and not _cluster.extended.should_checkpoint


@contextlib.contextmanager
def apart(name: str) -> Iterator[str]:
    """Yield a path to write at; in the end the file is moved to this path. May be nested."""
    global _is_apart
    path = Path(name).resolve()
    staging = None if _is_apart else _staging(path)
    if staging is None:
        yield name
        return
    _is_apart = True
    try:
        yield str(staging / path.name)
        for written in staging.iterdir():
            _place(written, path.parent / written.name)
    finally:
        _is_apart = False
        if not any(copy.parent == staging for copy in _kept.values()):
            shutil.rmtree(staging, ignore_errors=True)


def newest(name: str) -> str:
    """Return the path of this worker's newest file: in place, or its own copy until the chief's file is in place."""
    path = Path(name).resolve()
    copy = _kept.get(path)
    if copy is None or not copy.exists() or (path.exists() and path.stat().st_mtime_ns >= copy.stat().st_mtime_ns):
        return name
    return str(copy)


def claim(name: str) -> None:
    """Mark the path as the chief's: the other workers look once a step has brought all together."""
    mark = _mark(name)
    with contextlib.suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        atexit.register(mark.unlink, missing_ok=True)


def is_own(name: str) -> bool:
    """Return whether this worker may write at the path: the chief has not claimed it. The answer stays the same."""
    place = Path(name).resolve()
    if place not in _owned:
        mark = _mark(name)
        _owned[place] = not (mark.exists() and mark.stat().st_mtime >= _BEGUN)
    return _owned[place]


def _mark(name: str) -> Path:
    place = Path(name).resolve()
    return place.parent / f".tfscale-chief-{place.name}"


def _staging(path: Path) -> Path | None:
    """Make a folder beside the path; return None where no folder can be made, so that Keras raises its own error."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        return None
    _discard(older_than=time.time() - _BEHIND)
    prefix = f".tfscale-{_cluster.extended._task_type}-{_cluster.extended._task_id}-"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{prefix}*"):
            if left.stat().st_mtime < _BEGUN:
                shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    except OSError:
        return None


def _place(written: Path, path: Path) -> None:
    """Move a written file to its path; keep it aside where another process has written at this path in this run."""
    if is_chief():
        _move(written, path)
    elif _is_anothers(path):
        if (before := _kept.pop(path, None)) is not None:
            shutil.rmtree(before.parent, ignore_errors=True)
        _kept[path] = written
    else:
        _move(written, path)
        _put[path] = _identity(path)


def _is_anothers(path: Path) -> bool:
    return path.exists() and _put.get(path) != _identity(path) and path.stat().st_mtime >= _BEGUN


def _identity(path: Path) -> _Identity:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _move(written: Path, path: Path) -> None:
    """Move a file or folder; into a folder that is there already, file by file."""
    if not (written.is_dir() and path.is_dir()):
        written.replace(path)
        return
    for part in written.iterdir():
        _move(part, path / part.name)
    os.utime(path)


def _discard(older_than: float = math.inf) -> None:
    """Remove copies of files that the chief has in place by now."""
    for path, copy in list(_kept.items()):
        with contextlib.suppress(OSError):
            if copy.stat().st_mtime >= older_than:
                continue
            shutil.rmtree(copy.parent)
        del _kept[path]


atexit.register(_discard)
