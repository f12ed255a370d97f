"""`tfscale-agent install-service`: a unit of systemd for this host's agent, with the flags and the program given."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from tfscale.agent.settings import AgentSettings
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.settings.precedence import CommandLine, split_command
from tfscale.core.settings.user_folders import config_folder

_COMMAND = "install-service"
_TEMPLATE = "tfscale-agent.service"
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.@-]{0,98}[A-Za-z0-9_.-])?")
"""Name of a unit: systemd passes over hidden files, and starts no template, whose name ends in @."""
_SYSTEM = Path("/etc/systemd/system")
_SPARE = 15.0
"""Seconds that the manager waits for the end of the agent longer than the agent for that of the task."""
_PATIENCE = 30.0
ReadSettings = Callable[[Sequence[str], Mapping[str, str]], Sequence[AgentSettings]]


def main(arguments: Sequence[str], environment: Mapping[str, str], read_settings: ReadSettings) -> int:
    """Write the unit, have the manager read it, say what to do next, and return the exit status. Raises UsageError.

    `read_settings` reads the agent's flags and program, and refuses what the service would be refused.
    """
    flags, command = split_command(arguments)
    own, left = _parser().parse_known_args(flags)
    # As the service will have it, which has not the variables of this shell.
    kept = {name: value for name, value in environment.items() if name != "TF_CONFIG" and name[:8] != "TFSCALE_"}
    agents = read_settings([*left, "--", *command], kept)
    if any(each.exit_with_task for each in agents):
        raise UsageError(
            "the agent would end with its task, as --exit-with-task and a program without a cluster have it, and the "
            "service start both anew: give --no-exit-with-task"
        )
    if not _NAME.fullmatch(own.name):
        raise UsageError(
            f"--name {own.name}: give at most 100 letters, digits, and _ . @ -, with no . @ - at its begin and no @ at "
            "its end"
        )
    file = _folder(own.system, environment) / f"{own.name}.service"
    if file.exists() and not own.force:
        raise UsageError(f"{file} is there: give another --name, or --force to replace it")
    _write(file, unit(left, command, agents[0], environment, is_system=own.system))
    manager = ["systemctl"] if own.system else ["systemctl", "--user"]
    print(f"wrote {file}{_reread(manager)}")
    print(f"start it: {shlex.join(manager)} enable --now {own.name}")
    if not own.system:
        print("without `loginctl enable-linger` it ends with your last session on this host")
    return 0


def unit(
    flags: Sequence[str],
    command: Sequence[str],
    settings: AgentSettings,
    environment: Mapping[str, str],
    *,
    is_system: bool,
) -> str:
    """Return the unit's text for the agent with these flags; `command` is empty where the cluster file has the program.

    Raises UsageError for a program that is not there.
    """
    program, *words = settings.command
    if (found := shutil.which(program, path=environment.get("PATH"))) is None:
        raise UsageError(f"no program {program}: the service would not find it either")
    given = [str(Path(found).absolute()), *words] if command else []
    user = environment.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    return (files(__package__ or "tfscale.agent.systemd") / _TEMPLATE).read_text().format(
        run=_line(settings.run),
        user=f"User={user}\n" if is_system else "",
        folder=_line(str(Path.cwd())),
        agent=_quoted([sys.executable, "-m", "tfscale.agent.cli"]),
        flags=_quoted(_with_whole_paths(flags, settings)),
        command=f" -- {_quoted(given)}" if given else "",
        stop=settings.grace + _SPARE,
        target="multi-user.target" if is_system else "default.target",
    )  # fmt: skip


def _parser() -> CommandLine:
    parser = CommandLine(
        prog=f"tfscale-agent {_COMMAND}",
        usage=f"tfscale-agent {_COMMAND} [options] [flags of the agent] -- COMMAND ...",
        description="Write a systemd unit that runs this host's agent with these flags and this program, in this "
        "folder. The unit tells systemd when the agent serves and what its tasks do, and leaves a task alone whose "
        "agent dies.",
        allow_abbrev=False,
    )
    parser.add_argument("--system", action="store_true", help="for the whole host, as root; default: for this user")
    parser.add_argument("--name", default="tfscale-agent", metavar="NAME", help="of the unit; default tfscale-agent")
    parser.add_argument("--force", action="store_true", help="replace a unit of that name")
    return parser


def _folder(is_system: bool, environment: Mapping[str, str]) -> Path:
    if is_system:
        return _SYSTEM
    return config_folder(environment).parent / "systemd" / "user"


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}: write it as root, or leave out --system") from None


def _reread(manager: Sequence[str]) -> str:
    """Have the manager read its units; return what is left to do, in words that follow."""
    try:
        done = subprocess.run([*manager, "daemon-reload"], capture_output=True, timeout=_PATIENCE, check=False)
        is_done = done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        is_done = False
    return "" if is_done else f"; no systemd answers here: once it does, {shlex.join([*manager, 'daemon-reload'])}"


def _with_whole_paths(flags: Sequence[str], settings: AgentSettings) -> list[str]:
    """Return the flags with the cluster file that was found named, so that no other one is found later."""
    is_named = any(word.partition("=")[0] == "--cluster" for word in flags)
    found = [] if is_named or settings.cluster_file is None else ["--cluster", str(settings.cluster_file)]
    return [*found, *flags]


def _quoted(words: Sequence[str]) -> str:
    """Return words as systemd takes them apart again: it knows quotes, `%` and `$`."""
    return " ".join(word if re.fullmatch(r"[A-Za-z0-9_./:=@,+-]+", word) else _quote(word) for word in words)


def _quote(word: str) -> str:
    escaped = _line(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$").replace("\n", "\\n")
    return f'"{escaped}"'


def _line(text: str) -> str:
    return text.replace("%", "%%")
