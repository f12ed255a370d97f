"""Commands that measure programs in runs of their own, each with folders of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local_cluster import commands_with

TRAIN = str(Path(sys.executable).parent / "tfscale-train")


def start(folder: Path, words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """Start a command with a state folder and a folder for temporary files below this one."""
    temporary = _temporary(folder)
    temporary.mkdir(exist_ok=True)
    own = {"XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(temporary), **variables}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=os.environ | own, cwd=folder, text=True, **pipes)


def is_clean(folder: Path) -> bool:
    """Decide whether nothing is left of the command: no process, no file of a run."""
    return not commands_with(str(_temporary(folder))) and not list(_temporary(folder).glob("tfscale-compare-*"))


def _temporary(folder: Path) -> Path:
    return folder / "tmp"
