"""Kinds of failures, by the words of the line that explains them. Standard library alone.

console/analysis/first_steps.py has what to do about each kind.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

PEER = "peer_died"
"""Failure because a peer had ended: a trace of the reason, not the reason."""
OUT_OF_STEP = "out_of_step"
"""Failure because the workers met in different collectives."""
OUT_OF_MEMORY = "out_of_memory"
EXCEPTION = "exception"
"""Exception of no other kind."""
LAST_WORDS = "last_words"
"""Failure of which only the last line is known that the program wrote."""
OF_NETWORK = ("timed_out", "refused", "unreachable", "no_such_host", "connection_lost")
"""Failures for which a network may be the reason."""


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One kind of failures."""

    name: str
    words: str
    """The kind in the words of a sentence; empty where the line itself says it."""
    pattern: re.Pattern[str]


def _kind(name: str, words: str, pattern: str, flags: re.RegexFlag = re.IGNORECASE) -> FailureKind:
    return FailureKind(name, words, re.compile(pattern, flags))


def _of_system(name: str, *numbers: int, also: str = "(?!)") -> FailureKind:
    """Return the kind of some errors of the system, as Python numbers them and as the C library words them."""
    words = "|".join(rf"\[Errno {number}\]|\b{re.escape(os.strerror(number))}" for number in numbers)
    return _kind(name, "", f"{words}|{also}")


ANYWHERE = (
    _kind(
        OUT_OF_STEP,
        "the workers run different collectives (does one of them evaluate alone?)",
        r"another member in the group expected|mismatch in the collective instance"
        r"|collective instance \d+ expected .* but got",
    ),
    _kind(
        PEER,
        "another task had died",
        r"collective ops is aborted|(?<!\[Errno 104\] )connection reset by peer"
        r"|(un)?available.*(failed to connect|socket closed)"
        r"|heartbeat timeout|stopped sending heartbeats|unhealthy task|task .* is in error"
        r"|barrier .*(timed out|failed)|another task died",
    ),
    # Before memory: TensorFlow calls each of these ResourceExhausted, too.
    _of_system("disk_full", errno.ENOSPC),
    _of_system("quota", errno.EDQUOT),
    _of_system("open_files_of_host", errno.ENFILE),
    _of_system("open_files", errno.EMFILE),
    _kind(
        OUT_OF_MEMORY,
        "out of memory",
        r"\bOOM\b|out of memory|resource_?\s?exhausted|MemoryError|bad_alloc|cannot allocate",
    ),
    _kind(
        "not_a_number",
        "not a number",
        r"tensor had (nan|inf)|inf/nan|nan loss|loss (is|became) nan|check_?numerics.*failed",
    ),
    _kind("address_in_use", "its address is in use", r"address already in use|EADDRINUSE|could not start gRPC"),
    _kind(
        "no_program",
        "its program is not there",
        r"can't open file '.*No such file or directory|No module named .*__main__",
        re.NOFLAG,
    ),
    _kind(
        "gpu",
        "an error of its GPU",
        r"\bXid\b|CUDA_ERROR_(?!NO_DEVICE)|uncorrectable ECC|device-side assert|fell off the bus",
        re.NOFLAG,
    ),
    _kind(
        "fatal",
        "",
        r"^F\d{4} |Check failed:|Segmentation fault|Fatal Python error|^Timeout \(\d+:\d\d:\d\d|^terminate called "
        r"|^(double )?free\(\)|^(malloc|realloc|munmap_chunk)\(\)|^corrupted (size|double-linked)"
        r"|stack smashing detected|: Assertion `.*' failed|^pure virtual method called",
        re.NOFLAG,
    ),
)
"""Kinds that are looked for in each line: no program writes such a line while all is well. Of two the first counts."""

OF_THE_LAST = (
    _of_system("no_permission", errno.EACCES, errno.EPERM),
    _of_system("read_only", errno.EROFS),
    _of_system("missing_file", errno.ENOENT, errno.ENOTDIR),
    _of_system("timed_out", errno.ETIMEDOUT, also=r"^TimeoutError\b|\btimed out\b"),
    _of_system("refused", errno.ECONNREFUSED),
    _of_system("connection_lost", errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE),
    _of_system("unreachable", errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN),
    _of_system("foreign_address", errno.EADDRNOTAVAIL),
    _of_system("stale_file", errno.ESTALE),
    _of_system("disk_error", errno.EIO, errno.EREMOTEIO),
    _of_system("too_many_processes", errno.EAGAIN, also="can't start new thread"),
    _kind("no_such_host", "", r"name or service not known|in name resolution|no address associated with hostname"),
)
"""Kinds of the exception or of the line with which a program ended: handled, such an error is nothing unusual."""
