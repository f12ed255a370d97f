"""Files of the state that are empty, damaged, of a later version, removed, of others, or planted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial

W0 = "worker:0"
ENDED = Setup(variables={"LAST": "20"}, ready="^exited 0")
_Change = Callable[[Path], object]


def _empty(path: Path) -> None:
    path.write_text("")


def _damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40] + b"\xff\x00{")


def _remove(path: Path) -> None:
    path.unlink()


def _of_later_version(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99, "of_tomorrow": {"a": [1]}}))


def _far_ahead(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"generation": 1 << 60}))


def _changed(ending: str, change: _Change) -> Callable[[Trial], None]:
    """Return a deed: the agent is killed, its file changed, and the agent started again."""

    def act(trial: Trial) -> None:
        trial.signal("agent", W0, signal.SIGKILL)
        trial.agents[W0].wait(60)
        time.sleep(0.2)
        change(trial.path(W0, ending))
        trial.start_agent(W0)

    return act


def _row(name: str, does: str, setup: Setup, expected: Expectation, ending: str, change: _Change) -> Fault:
    return Fault(name, f"{does}, while no agent runs", expected, _changed(ending, change), setup)


NOT_AGAIN = Expectation("the run does not begin again", {W0: "^lost|^exited"}, ended=(W0,), most_lost=0)
ANEW = Expectation("nothing says that it has run: it begins again, from its checkpoint", {W0: "^exited 0"}, most_lost=0)
KNOWN = Expectation("the end is known as before", {W0: "^exited 0"}, ended=(W0,), most_lost=0)
REFUSED = Expectation(
    "the agent ends with 1 and one line; nothing is started", agents={W0: "^1$"}, ended=(W0,), most_lost=0
)
ADOPTED = Expectation("the task is adopted", {W0: RUNS}, (W0,), most_lost=0)
UNTOUCHED = Expectation("the task is left as it is, and the agent says why", lives=(W0,), agents={W0: "^1$"}, within=60)
RUNNING = Setup()


def _in_folder(prepare: Callable[[Trial], None], pattern: str) -> Callable[[Trial], str]:
    """Return a deed: an agent is started in a folder that somebody has prepared."""

    def act(trial: Trial) -> str:
        prepare(trial)
        trial.start_agent(W0).wait(60)
        said = trial.said(W0)
        if trial.steps(W0) or pattern not in said:
            raise Unexpected(f"it started, or said {said[-200:]!r}")
        return said.strip().splitlines()[-1][:200]

    return act


def _of_others(trial: Trial) -> None:
    trial.run_folder.mkdir(mode=0o700)
    os.chown(trial.run_folder, 65534, 65534)


def _for_all(trial: Trial) -> None:
    trial.run_folder.mkdir(mode=0o700)
    trial.run_folder.chmod(0o777)


def _link(trial: Trial) -> None:
    (trial.folder / "elsewhere").mkdir(mode=0o700)
    trial.run_folder.symlink_to(trial.folder / "elsewhere")


def _no_root() -> str:
    return "" if os.geteuid() == 0 else "another owner needs root"


def _planted(ending: str) -> Callable[[Trial], str]:
    """Return a deed: a link to a file of the user's lies where the agent or the shim will write."""

    def act(trial: Trial) -> str:
        precious = trial.folder / "precious"
        precious.write_text("precious")
        trial.run_folder.mkdir(mode=0o700)
        trial.path(W0, ending).symlink_to(precious)
        trial.start_agent(W0)
        time.sleep(4)
        if precious.read_text() != "precious":
            raise Unexpected("it wrote through the link")
        return "the file behind the link is as it was"

    return act


def _umask(trial: Trial) -> str:
    trial.start_agent(W0)
    trial.until_state(RUNS, 20)
    found = {path: path.lstat().st_mode & 0o777 for path in trial.run_folder.rglob("*")}
    wrong = [f"{path.name} {mode:o}" for path, mode in found.items() if mode & 0o077]
    if wrong or trial.run_folder.stat().st_mode & 0o077:
        raise Unexpected(f"others may read or write: {', '.join(wrong)}")
    return f"{len(found)} files, all of this user alone"


def _folder_gone(trial: Trial) -> None:
    shutil.rmtree(trial.run_folder)


NOBODY = Setup(starts=False)
FAULTS = (
    _row("state empty", "the state of a finished run is emptied", ENDED, NOT_AGAIN, "state.json", _empty),
    _row("state damaged", "the state of a finished run is damaged", ENDED, NOT_AGAIN, "state.json", _damage),
    _row("state removed", "the state of a finished run is removed", ENDED, ANEW, "state.json", _remove),
    _row("state later", "the state of a finished run is of version 99", ENDED, KNOWN, "state.json", _of_later_version),
    _row("journal empty", "the journal of a finished run is emptied", ENDED, REFUSED, "agent.json", _empty),
    _row("journal damaged", "the journal of a finished run is damaged", ENDED, REFUSED, "agent.json", _damage),
    _row("journal later", "the journal is of version 99", ENDED, KNOWN, "agent.json", _of_later_version),
    _row("journal too far", "the journal's generation is 2^60", ENDED, REFUSED, "agent.json", _far_ahead),
    _row(
        "living: state later",
        "a living task's state is of version 99",
        RUNNING,
        ADOPTED,
        "state.json",
        _of_later_version,
    ),
    _row("living: state empty", "a living task's state is emptied", RUNNING, UNTOUCHED, "state.json", _empty),
    _row("living: state removed", "a living task's state is removed", RUNNING, UNTOUCHED, "state.json", _remove),
    _row(
        "living: journal later",
        "a living task's journal is of version 99",
        RUNNING,
        ADOPTED,
        "agent.json",
        _of_later_version,
    ),
    _row("living: journal damaged", "a living task's journal is damaged", RUNNING, UNTOUCHED, "agent.json", _damage),
    Fault(
        "folder removed",
        "the run's folder is removed while the task runs",
        Expectation("the task runs on, and the agent answers", {W0: RUNS}, most_lost=0),
        _folder_gone,
        Setup(table="\n"),
    ),
    Fault(
        "folder of others",
        "the run's folder belongs to another user",
        REFUSED,
        _in_folder(_of_others, "cannot keep state"),
        NOBODY,
        missing=_no_root,
        quick=True,
    ),
    Fault(
        "folder for all", "others may write in the run's folder", REFUSED, _in_folder(_for_all, "chmod go-w"), NOBODY
    ),
    Fault("folder is a link", "the run's folder is a link", REFUSED, _in_folder(_link, "cannot keep state"), NOBODY),
    *(
        Fault(
            f"planted: {ending}",
            f"a link to a file of the user's lies at the task's {ending}",
            Expectation("no file is written through it"),
            _planted(ending),
            NOBODY,
        )
        for ending in ("log", "state.json", "agent.json", "agent.lock", "lock", "audit.jsonl")
    ),
    Fault(
        "umask 0",
        "the agent is started with a umask of 0",
        Expectation("folders are 0700, files 0600", {W0: RUNS}),
        _umask,
        Setup(starts=False, prefix={W0: ("sh", "-c", 'umask 0 && exec "$@"', "sh")}),
    ),
)
