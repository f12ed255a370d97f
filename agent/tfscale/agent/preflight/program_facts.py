"""Facts of a task's program: its Python, the versions that this has, and the script. TensorFlow is not imported."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfscale.core.preflight.examination import Program

_PYTHON = re.compile(r"python(\d[\d.]*)?$")
_FIRST_LINE = 256
"""Bytes of a script in which its first line is looked for, as the kernel does."""
_PATIENCE = 10.0
"""Seconds for a Python to tell its versions."""
_MOST_SCRIPT = 1 << 24
"""Bytes of a script that are hashed."""
_ASK = """
import json, sys
from importlib import metadata

def version(*names):
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return ""

print(json.dumps({
    "python": ".".join(map(str, sys.version_info[:3])),
    "tensorflow": version("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-rocm"),
    "keras": version("keras", "keras-nightly"),
}))
"""


def program_facts(command: Sequence[str], folder: str | None, environment: Mapping[str, str]) -> Program:
    """Return facts about a command without running it; for an unknown fact a problem, or an empty value."""
    interpreter, script = _parts(command, folder, environment)
    if not interpreter:
        return Program(problem=f"no Python in the command ({command[0]}): versions are not known")
    known = Program(interpreter=interpreter, script=script, script_hash=_hash(Path(folder or "", script)))
    try:
        asked = subprocess.run(
            [interpreter, "-c", _ASK],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        return replace(known, **json.loads(asked.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return replace(known, problem=f"{interpreter} has not told its versions in {_PATIENCE:g} s")
    except OSError as error:
        return replace(known, problem=f"{interpreter} cannot be started: {error.strerror}")
    except (ValueError, IndexError):
        said = asked.stderr.strip().splitlines()[-1:] or [f"exit status {asked.returncode}"]
        return replace(known, problem=f"{interpreter} does not tell its versions: {said[0][:200]}")


def _parts(command: Sequence[str], folder: str | None, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the Python that runs a command, and the script; both empty without one.

    The Python may stand behind other programs (`nice -n 5 python train.py`), or in the first line of the script.
    """
    for position, word in enumerate(command):
        if _PYTHON.match(Path(word).name):
            scripts = (each for each in command[position + 1 :] if each.endswith(".py"))
            return _found(word, folder, environment), next(scripts, "")
    program = _found(command[0], folder, environment)
    words = _first_line(Path(folder or "", program))
    named = next((word for word in words if _PYTHON.match(Path(word).name)), "")
    return (_found(named, folder, environment), program) if named else ("", "")


def _found(word: str, folder: str | None, environment: Mapping[str, str]) -> str:
    if os.sep in word:
        return str(Path(folder or "", word))
    return shutil.which(word, path=environment.get("PATH")) or word


def _first_line(path: Path) -> list[str]:
    """Return the words behind `#!` in a program's first line."""
    try:
        with path.open("rb") as file:
            line = file.read(_FIRST_LINE).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        return []
    return line.removeprefix("#!").split() if line.startswith("#!") else []


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(_MOST_SCRIPT)).hexdigest()
    except OSError:
        return ""
