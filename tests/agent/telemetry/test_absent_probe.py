"""Reasons for which no probe reports, found in real processes that have mapped a file of TensorFlow's name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.agent.process.started_process import StartedProcess, started_processes
from tfscale.agent.supervision.task_environment import probe_site
from tfscale.agent.telemetry import absent_probe
from tfscale.agent.telemetry.absent_probe import AbsentProbe
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.trainer.probe.entry import imports
from tfscale.trainer.probe.process import presence

RUNS = TaskStatus(TaskState.RUNNING, 1, 1, started=time.time() + 1)
ENDED = replace(RUNS, state=TaskState.EXITED)
SITE = str(probe_site())
COMPLETE = {"TFSCALE_REPORT": "/", "TFSCALE_PROBE_PATH": "/", "PYTHONPATH": f"{SITE}:/mine"}
PROGRAM = """
import mmap, os, sys
files = [open(path) for path in sys.argv[1].split(":")]
mapped = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
os.setuid(int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def started(
    folder: Path,
    flags: Sequence[str] = (),
    *,
    variables: Mapping[str, str] = COMPLETE,
    library: str = "libtensorflow_framework.so.2",
    launcher: Sequence[str] = (),
    user: int = os.getuid(),
    python: str | Path = sys.executable,
    more: str = imports.__file__,
) -> Iterator[int]:
    """Start a Python that has mapped a library and the file `more`; yield its process id, or its launcher's."""
    path = folder / library
    path.write_text("not really")
    environment = {"PATH": os.environ["PATH"], **variables}
    command = [*launcher, python, *flags, "-c", PROGRAM, f"{path}:{more}".strip(":"), str(user)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def status(pid: int) -> ProbeStatus:
    found = absent_probe.absent_probe(list(started_processes(pid)))
    assert found is not None
    return found


def message(pid: int) -> str:
    found = status(pid)
    assert found.state is ProbeState.ABSENT
    return found.message


def test_a_process_whose_import_the_way_in_sees_may_still_report(tmp_path: Path) -> None:
    with started(tmp_path) as pid:
        assert status(pid) == ProbeStatus(ProbeState.LOADED, f"its process {pid} is importing TensorFlow")


def test_a_process_with_the_probe_that_has_nothing_to_report_is_told_apart(tmp_path: Path) -> None:
    with started(tmp_path, more=presence.__file__) as pid:
        said = f"its process {pid} has imported TensorFlow, and has reported no training"
        assert status(pid) == ProbeStatus(ProbeState.LOADED, said)


def test_an_import_past_the_way_in_is_told(tmp_path: Path) -> None:
    with started(tmp_path, more="") as pid:
        assert message(pid).startswith(f"its process {pid} ({Path(sys.executable).name} -c ")
        assert ") has loaded TensorFlow past the probe: the task's log says why" in message(pid)


def test_a_process_that_may_not_be_looked_into_is_told() -> None:
    found = absent_probe.absent_probe([StartedProcess(7, 65534, ["python", "train.py"], is_hidden=True)])
    said = "its process 7 runs as nobody, and this agent may not look into it: start the agent as root"
    assert found == ProbeStatus(ProbeState.EXPECTED, said)


@pytest.mark.parametrize("version", ["3.6", "3.9"])
def test_a_python_that_is_too_old_is_told(tmp_path: Path, version: str) -> None:
    python = next(iter(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), None)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    with started(tmp_path, python=python) as pid:
        assert message(pid) == (
            f"its process {pid} runs Python {version}, and the probe needs 3.10 or newer: install that"
        )


@pytest.mark.parametrize("flags", [["-I"], ["-uE"], ["-W", "ignore", "-E"]], ids=" ".join)
def test_flags_that_ignore_pythonpath_are_named(tmp_path: Path, flags: list[str]) -> None:
    with started(tmp_path, flags) as pid:
        assert message(pid) == (
            f"Python of its process {pid} was started with -{flags[-1][-1]}, which ignores PYTHONPATH: leave that out, "
            f"or run 'tfscale-agent install-probe --python {sys.executable}' once; then restart it"
        )


def test_options_of_the_script_are_not_those_of_python(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("argv[1]", "argv[-2]").replace("argv[2]", "argv[-1]"))
    with started(tmp_path, [str(script), "-I"]) as pid:
        assert status(pid).state is ProbeState.LOADED


def test_a_python_without_packages_has_no_second_way_in(tmp_path: Path) -> None:
    with started(tmp_path, ["-IS"]) as pid:
        assert message(pid).endswith("was started with -S, which reads no packages: leave that out")


def test_a_path_that_was_set_anew_is_shown_with_what_to_write(tmp_path: Path) -> None:
    with started(tmp_path, variables=COMPLETE | {"PYTHONPATH": "src"}) as pid:
        assert f"PYTHONPATH of its process {pid} was set to 'src' anew" in message(pid)
        assert "write PYTHONPATH=src:$PYTHONPATH in its launcher, or run" in message(pid)


def test_a_path_that_was_removed_is_told(tmp_path: Path) -> None:
    without = {name: value for name, value in COMPLETE.items() if name != "PYTHONPATH"}
    with started(tmp_path, variables=without) as pid:
        assert f"PYTHONPATH of its process {pid} was removed" in message(pid)


def test_a_cleaned_environment_is_told_with_the_first_variable_that_is_missing(tmp_path: Path) -> None:
    with started(tmp_path, variables={}) as pid:
        assert f"the environment of its process {pid} was cleaned, and lacks TFSCALE_REPORT" in message(pid)


def test_a_sitecustomize_before_the_probes_is_named(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").touch()
    with started(tmp_path, variables=COMPLETE | {"PYTHONPATH": f"{tmp_path}:{SITE}"}) as pid:
        assert f"has {tmp_path}/sitecustomize.py before the probe's: put that folder last" in message(pid)


def test_the_process_that_a_launcher_has_started_is_looked_at(tmp_path: Path) -> None:
    with started(tmp_path, ["-I"], launcher=["sh", "-c", '"$@"; true', "sh"]) as pid:
        assert "was started with -I" in message(pid)
        assert f"process {pid} " not in message(pid)


def test_a_python_that_has_not_loaded_tensorflow_is_no_trainer(tmp_path: Path) -> None:
    with started(tmp_path, ["-I"], library="libother.so") as pid:
        assert status(pid).state is ProbeState.EXPECTED
        assert status(pid).message.startswith("none of its processes has imported TensorFlow (")


def test_a_folder_that_the_process_does_not_see_is_named(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with started(tmp_path, variables=COMPLETE | {"TFSCALE_PROBE_PATH": gone}) as pid:
        assert message(pid).startswith(f"its process {pid} does not see {gone}, which the probe needs: mount that")


def test_a_socket_that_the_process_does_not_see_is_found_by_its_name(tmp_path: Path) -> None:
    with started(tmp_path, variables=COMPLETE | {"TFSCALE_REPORT": str(tmp_path / "gone")}) as pid:
        assert status(pid).state is ProbeState.LOADED


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="another user's process is started as root alone")


@needs_root
def test_a_socket_that_the_process_does_not_see_in_another_network_is_named(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    with started(tmp_path, variables=COMPLETE | {"TFSCALE_REPORT": gone}, launcher=["unshare", "-n"]) as pid:
        assert message(pid).startswith(f"its process {pid} does not see {gone}, which the probe needs: mount that")


@needs_root
def test_a_process_of_another_user_reports_by_the_sockets_name(tmp_path: Path) -> None:
    with started(tmp_path, user=65534) as pid:
        assert status(pid).state is ProbeState.LOADED


@needs_root
def test_a_process_of_another_user_in_another_network_is_told(tmp_path: Path) -> None:
    with started(tmp_path, user=65534, launcher=["unshare", "-n"]) as pid:
        assert message(pid) == (
            f"its process {pid} runs as nobody in a network of its own, and may not open the agent's socket: start "
            "the agent as that user"
        )


@needs_root
def test_a_process_of_another_user_who_may_not_read_the_probe_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with started(tmp_path, variables=COMPLETE | {"TFSCALE_PROBE_PATH": str(tmp_path)}, user=65534) as pid:
        assert message(pid) == (
            f"its process {pid} runs as nobody, who may not read {tmp_path}: install tfscale where that user may read "
            "it, or start the agent as that user"
        )


def test_the_python_is_named_as_its_launcher_named_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python9").symlink_to(shutil.which(sys.executable) or "")
    variables = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    with started(tmp_path, variables=variables, launcher=["sh", "-c", 'shift; python9 "$@"; true', "sh"]) as pid:
        assert f"install-probe --python {tmp_path}/bin/python9'" in message(pid)


def test_what_was_found_is_said_until_the_next_start(tmp_path: Path) -> None:
    watch = AbsentProbe()
    with started(tmp_path, ["-I"]) as pid:
        watch.look(pid, RUNS)
        found = watch.status
        assert found is not None and found.state is ProbeState.ABSENT
    watch.look(None, ENDED)
    assert watch.status == found
    watch.look(None, replace(RUNS, state=TaskState.STARTING, attempt=2))
    assert watch.status is None
    with started(tmp_path) as pid:
        watch.look(pid, RUNS)
        assert watch.status is not None and watch.status.state is ProbeState.LOADED


def test_tensorflow_is_not_missed_in_the_first_seconds_but_after_an_early_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = AbsentProbe()
    with started(tmp_path, library="libother.so") as pid:
        watch.look(pid, RUNS)
        assert watch.status is None
        later = time.monotonic() + 11
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert watch.status is not None and watch.status.state is ProbeState.EXPECTED
        monkeypatch.undo()
    watch.look(None, ENDED)
    assert watch.status is not None and watch.status.state is ProbeState.EXPECTED


def test_a_process_that_ended_between_two_looks_is_told_but_not_of_an_earlier_agent() -> None:
    watch = AbsentProbe()
    watch.look(None, replace(ENDED, started=time.time() - 60))
    assert watch.status is None
    watch.look(None, replace(ENDED, started=time.time() + 60))
    said = "its process ended before anything was seen of it"
    assert watch.status == ProbeStatus(ProbeState.EXPECTED, said)
