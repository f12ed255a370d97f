"""`tfscale-agent install-probe`: the probe's second way into a Python environment, and its removal.

It is for launchers that lose the first way: they set PYTHONPATH anew, start Python with -I or -E, or clean the
environment. It consists of two files in the environment's site-packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from tfscale.agent.process.started_process import MODULE
from tfscale.agent.supervision.task_environment import probe_site
from tfscale.core.errors import UsageError

COMMAND = "install-probe"
_ASK = "import sysconfig; print(sysconfig.get_path('purelib'))"
_CHECK = f"import sys; print({MODULE!r} in sys.modules)"
_PATIENCE = 60.0
"""Seconds for a Python to start."""


def main(arguments: Sequence[str]) -> int:
    """Install or remove the second way in, say so, and return the exit status. Raises UsageError."""
    flags = _parser().parse_args(arguments)
    folder = site_packages(flags.python)
    print(remove(folder) if flags.remove else install(flags.python, folder))
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"tfscale-agent {COMMAND}",
        description="Let the probe into every process of a Python environment that an agent starts, also where its "
        "launcher sets PYTHONPATH anew, cleans the environment, or starts Python with -I or -E. In a process that no "
        "agent started it does nothing.",
        allow_abbrev=False,
    )
    parser.add_argument("--python", metavar="PATH", default=sys.executable, help="Python that runs the script")
    parser.add_argument("--remove", action="store_true", help="remove it again")
    return parser


def site_packages(python: str) -> Path:
    """Return the folder of a Python's packages. Raises UsageError where there is no such Python."""
    return Path(_said(python, _ASK))


def install(python: str, folder: Path) -> str:
    """Install the probe into a Python's folder of packages; return a sentence about it. Raises UsageError."""
    site = probe_site()
    if site is None:
        raise UsageError("the trainer part of tfscale is not installed beside the agent: nothing to install")
    module, path_file = _files(folder)
    try:
        module.write_bytes((Path(site) / module.name).read_bytes())
        path_file.write_text(f"import {MODULE}\n")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}: name a Python with --python whose packages are yours") from None
    if _said(python, _CHECK) != "True":
        raise UsageError(f"{python} does not read {path_file}: it is started without its `site` module")
    return f"installed {path_file}; to remove it: tfscale-agent {COMMAND} --python {python} --remove"


def remove(folder: Path) -> str:
    """Remove the probe from a folder of packages; return a sentence about it. Raises UsageError."""
    found = [file for file in reversed(_files(folder)) if file.exists()]
    try:
        for file in found:
            file.unlink()
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    return f"removed {found[0]}" if found else f"nothing to remove in {folder}"


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / f"{MODULE}.py", folder / f"{MODULE}.pth"


def _said(python: str, program: str) -> str:
    """Return the output of a Python that is started as a cleaning launcher would. Raises UsageError."""
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        done = subprocess.run(
            [python, "-I", "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except FileNotFoundError:
        raise UsageError(f"{python}: there is no such Python: give --python PATH") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{python}: is no Python that runs here: {error}") from None
    return done.stdout.strip()
