"""`srun tfscale-agent -- python train.py`, and nothing else, on a real Slurm with two nodes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import net_hosts
import psutil
import pytest
import real_slurm
from real_slurm import KILL_WAIT, RealSlurm, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(real_slurm.missing()), reason=real_slurm.missing()),
]
PROGRAMS = Path(__file__).parents[1] / "programs"
TASK = PROGRAMS / "slurm_task.py"
AGENT = ("tfscale-agent", "--", "python")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    with real_slurm.running(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(autouse=True)
def _ended(slurm: RealSlurm) -> Iterator[None]:
    """End all jobs after a test; nothing of them is left on a node then."""
    yield
    slurm.run("scancel", "--me", "--signal=KILL", "--full")
    slurm.run("scancel", "--me")
    until(lambda: not slurm.run("squeue", "-h").stdout, "a job is left")
    until(lambda: not programs(), "a task has outlived its job")
    until(lambda: not consoles(), "the console of a report has outlived its job")


def programs() -> list[int]:
    """List the processes of tasks, those without an agent too."""
    ways = (["python", str(TASK)], ["python", "train.py"])
    return [process.pid for process, words in on_nodes() if words[:2] in ways]


def agents(rank: int) -> list[int]:
    """List the processes of the agent of a rank."""
    return [
        process.pid
        for process, words in on_nodes()
        if any(word.endswith("tfscale-agent") for word in words[:2]) and rank_of(process) == str(rank)
    ]


def consoles() -> list[int]:
    """List the consoles on the nodes, which write reports."""
    return [process.pid for process, words in on_nodes() if "tfscale.console.cli" in words]


def on_nodes() -> Iterator[tuple[psutil.Process, list[str]]]:
    """Yield each process of the nodes with its command line."""
    for pid in (*net_hosts.processes(1), *net_hosts.processes(2)):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            yield process, process.cmdline()


def rank_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.environ().get("SLURM_PROCID", "")
    return ""


def report_of(slurm: RealSlurm, job: str) -> str:
    (path,) = (slurm.home / "state" / "tfscale").glob(f"{job}.*/report.txt")
    return path.read_text()


def told(out: str) -> dict[int, dict[str, Any]]:
    """Return what each rank of a step has told of itself."""
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {int(line["SLURM_PROCID"]): line for line in lines}


def running_job(slurm: RealSlurm) -> str:
    """Return the number of the job whose two programs have come up."""
    until(lambda: len(programs()) >= 2, "the programs do not run")
    return slurm.run("squeue", "-h", "-o", "%A").stdout.split()[0]


def once(slurm: RealSlurm, *more: str) -> dict[str, Any]:
    done = slurm.run("tfscale-console", "--slurm", *more, "--once")
    assert done.stdout, done.stderr
    snapshot: dict[str, Any] = json.loads(done.stdout)
    return snapshot


def test_srun_alone_makes_a_cluster_that_a_console_finds_by_its_job(slurm: RealSlurm) -> None:
    step = slurm.start("srun", "-N2", *AGENT, TASK, "25", "0")
    job = running_job(slurm)
    snapshot = once(slurm)
    assert snapshot["run"] == f"{job}.0.0"
    assert [task["host"] for task in snapshot["tasks"]] == ["tf1", "tf2"]
    assert all(task["link"]["state"] == "up" for task in snapshot["tasks"])
    assert {task["task"] for task in once(slurm, job)["tasks"]} == {"worker:0", "worker:1"}
    stranger = slurm.run("tfscale-console", "--agent", snapshot["tasks"][1]["agent"], "--insecure", "--once")
    assert stranger.returncode == 1, "an agent answers whoever has no certificate of the step"
    out, errors = step.communicate(timeout=60)
    assert (step.returncode, errors) == (0, f"tfscale-agent: {job}.0.0: tfscale-console --slurm {job} shows it\n")
    ranks = told(out)
    assert [ranks[rank]["task"] for rank in (0, 1)] == [{"type": "worker", "index": index} for index in (0, 1)]
    assert ranks[0]["cluster"] == ranks[1]["cluster"]
    assert [address.partition(":")[0] for address in ranks[0]["cluster"]["worker"]] == ["tf1", "tf2"]


@pytest.mark.parametrize("status", ["3", "-9", "-15"])
def test_a_step_ends_with_the_status_that_it_has_without_tfscale(slurm: RealSlurm, status: str) -> None:
    bare = slurm.run("srun", "-N2", "python", TASK, "1", status)
    with_agents = slurm.run("srun", "-N2", *AGENT, TASK, "1", status)
    ends = [sorted(re.findall(r"srun: error: (tf\d: task \d: .*)", each.stderr)) for each in (bare, with_agents)]
    assert (bare.returncode, ends[0]) == (with_agents.returncode, ends[1])
    assert bare.returncode


@pytest.mark.parametrize("kind", ["absent", "data", "folder", "interpreter", "text"])
def test_a_program_that_cannot_be_started_has_the_status_that_it_has_without_tfscale(
    slurm: RealSlurm, kind: str
) -> None:
    path = slurm.home / f"program-{kind}"
    if kind == "folder":
        path.mkdir()
    elif kind != "absent":
        path.write_text("#!/nowhere/python\n" if kind == "interpreter" else "text\n")
        path.chmod(0o600 if kind == "data" else 0o700)
    bare, with_agents = (slurm.run("srun", "-N2", *words, path) for words in ((), ("tfscale-agent", "--")))
    assert (bare.returncode, bool(bare.returncode)) == (with_agents.returncode, True), with_agents.stderr


def test_each_task_reads_what_srun_gives_it(slurm: RealSlurm) -> None:
    bare, with_agents = (
        slurm.run("bash", "-c", f"seq 50000 | srun -N2 {words} wc -l") for words in ("", "tfscale-agent --")
    )
    assert with_agents.stdout == bare.stdout == "50000\n50000\n", with_agents.stderr


def test_several_tasks_a_node_in_turn_have_roles_and_ports_of_their_own(slurm: RealSlurm) -> None:
    step = slurm.run(
        *("srun", "-N2", "-n4", "--distribution=cyclic", "tfscale-agent", "--chief", "--ps", "1"),
        *("--", "python", TASK, "8", "0"),
    )
    assert step.returncode == 0, "what served the chief ends with it, and well"
    ranks = told(step.stdout)
    assert [ranks[rank]["TFSCALE_TASK"] for rank in range(4)] == ["chief:0", "worker:0", "worker:1", "ps:0"]
    addresses = ranks[0]["cluster"]
    sits = [*addresses["chief"], *addresses["worker"], *addresses["ps"]]
    assert [address.partition(":")[0] for address in sits] == [ranks[rank]["host"] for rank in range(4)]
    assert [ranks[rank]["host"] for rank in range(4)] == ["tf1", "tf2", "tf1", "tf2"]
    assert len(set(sits)) == 4


def test_the_groups_of_a_heterogeneous_job_are_one_cluster(slurm: RealSlurm) -> None:
    step = slurm.run(
        *("salloc", "-N1", "-n1", ":", "-N1", "-n2", "srun", "--het-group=0,1", *AGENT, TASK, "8", "0"),
    )
    assert step.returncode == 0, step.stderr
    ranks = told(step.stdout)
    assert [ranks[rank]["task"]["index"] for rank in range(3)] == [0, 1, 2]
    hosts = [address.partition(":")[0] for address in ranks[0]["cluster"]["worker"]]
    assert hosts == [ranks[rank]["host"] for rank in range(3)]


def test_a_step_of_one_task_is_alone_and_found_all_the_same(slurm: RealSlurm) -> None:
    step = slurm.start("srun", "-n1", *AGENT, TASK, "25", "0")
    until(programs, "the program does not run")
    (task,) = once(slurm)["tasks"]
    assert (task["task"], task["host"], task["link"]["state"]) == ("worker:0", "tf1", "up")
    assert task["host_sample"]["task"]["granted"] == 1, "of the two CPUs of the node"
    out, _ = step.communicate(timeout=60)
    assert "cluster" not in told(out)[0], "its TF_CONFIG is left alone"


def test_a_job_that_a_step_has_submitted_is_none_of_its_tasks(slurm: RealSlurm) -> None:
    """sbatch hands on the variables of the step."""
    script = slurm.home / "submitted.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH -n1 --output=submitted.out\ntfscale-agent -- python {TASK} 1 3\n")
    line = f"[ $SLURM_PROCID = 1 ] || sbatch --wait {script}"
    step = slurm.run("srun", "-N2", "--overcommit", "--oversubscribe", "bash", "-c", line)
    assert step.returncode == 3, step.stderr
    (told_by,) = told((slurm.home / "submitted.out").read_text()).values()
    assert "cluster" not in told_by


def test_a_second_program_of_a_step_begins_anew(slurm: RealSlurm) -> None:
    line = f"tfscale-agent -- python {TASK} 1 0 && tfscale-agent -- python {TASK} 1 5"
    step = slurm.run("srun", "-N2", "bash", "-c", line)
    assert step.returncode == 5, step.stderr
    assert len([line for line in step.stdout.splitlines() if line.startswith("{")]) == 4


def test_a_cancelled_job_has_the_time_to_save_that_it_has_without_tfscale(slurm: RealSlurm) -> None:
    step = slurm.start("srun", "-N2", *AGENT, TASK, "60", "0", "save")
    slurm.run("scancel", running_job(slurm))
    out, errors = step.communicate(timeout=KILL_WAIT + 20)
    assert (step.returncode, out.count("saved")) == (7, 2), errors


def test_a_program_that_does_not_end_at_sigterm_is_killed_before_slurm_kills_its_agent(slurm: RealSlurm) -> None:
    ignores = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    step = slurm.start("srun", "-N2", *AGENT, "-c", ignores)
    assert step.stdout is not None
    assert step.stdout.readline() == "up\n"
    asked = time.monotonic()
    slurm.run("scancel", slurm.run("squeue", "-h", "-o", "%A").stdout.strip())
    _, errors = step.communicate(timeout=KILL_WAIT + 20)
    assert time.monotonic() - asked < KILL_WAIT + 2, errors
    logs = sorted((slurm.home / "state" / "tfscale").glob("*/worker-0.log"), key=os.path.getmtime)
    assert "ended with signal 9" in logs[-1].read_text(), "the agent has lived to see its task's end"


def test_the_limit_of_time_ends_a_job_as_without_tfscale(slurm: RealSlurm) -> None:
    step = slurm.start("srun", "-N2", "--time=0:01", *AGENT, TASK, "150", "0", "save")
    out, errors = step.communicate(timeout=150)
    assert (step.returncode, out.count("saved")) == (7, 2), errors
    assert "DUE TO TIME LIMIT" in errors


def test_a_requeued_job_is_a_run_of_its_own(slurm: RealSlurm, tmp_path: Path) -> None:
    script, out = tmp_path / "job.sh", tmp_path / "out"
    script.write_text(f"#!/bin/bash\nsrun {' '.join(AGENT)} {TASK} 25 0\n")
    batch = slurm.run("sbatch", "-N2", "-n2", "--requeue", "--open-mode=append", "-o", out, script)
    job = running_job(slurm)
    assert job in batch.stdout
    slurm.run("scontrol", "requeue", job)
    until(lambda: f'"TFSCALE_RUN": "{job}.0.1"' in out.read_text(), "the job is not run again")
    assert once(slurm, job)["run"] == f"{job}.0.1"
    assert once(slurm, job)["generation"] == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_the_death_of_an_agent_is_the_end_of_its_task(slurm: RealSlurm, rank: int) -> None:
    step = slurm.start("srun", "-N2", *AGENT, TASK, "12", "0")
    running_job(slurm)
    (agent,) = agents(rank)
    os.kill(agent, signal.SIGKILL)
    until(lambda: len(programs()) == 1, "the task has outlived its agent")
    _, errors = step.communicate(timeout=60)
    assert f"task {rank}: Killed" in errors
    assert step.returncode == 128 + signal.SIGKILL


def test_two_jobs_share_a_node(slurm: RealSlurm) -> None:
    steps = {name: slurm.start("srun", "-J", name, "-N2", *AGENT, TASK, "120", "0") for name in ("one", "other")}
    until(lambda: len(programs()) == 4, "the two jobs do not run at the same time")
    jobs = slurm.run("squeue", "-h", "-o", "%A", "--sort", "j").stdout.split()
    assert {once(slurm, job)["run"] for job in jobs} == {f"{job}.0.0" for job in jobs}
    which = slurm.run("tfscale-console", "--slurm", "--once")
    assert (which.returncode, which.stdout) == (2, "")
    assert which.stderr.startswith("tfscale-console: --slurm: 2 of your jobs run: name one of ")
    slurm.run("scancel", jobs[0])
    _, errors = steps["one"].communicate(timeout=60)
    assert "CANCELLED" in errors
    assert len(programs()) == 2, "the other job goes on"
    slurm.run("scancel", jobs[1])
    steps["other"].communicate(timeout=60)


def test_a_watch_finds_each_job_and_its_runs_end_with_a_report(slurm: RealSlurm, tmp_path: Path) -> None:
    watch = slurm.start("tfscale-console", "watch", "--slurm", "--runs", tmp_path)

    def has(job: str, name: str) -> bool:
        return bool([*tmp_path.glob(f"{job}.0.0-*/{name}")])

    try:
        for seconds in ("12", "120"):
            step = slurm.start("srun", "-N2", *AGENT, TASK, seconds, "0")
            job = running_job(slurm)
            until(partial(has, job, "past.json"), "the run is not recorded")
            if seconds == "120":
                slurm.run("scancel", job)
            step.communicate(timeout=60)
            until(partial(has, job, "report.txt"), "the run has no report")
    finally:
        watch.terminate()
        _, said = watch.communicate(timeout=60)
    ends = [json.loads(path.read_text())["how"] for path in sorted(tmp_path.glob("*/run.json"))]
    assert watch.returncode == 0 and ends[0] == "all tasks have ended well" and len(ends) == 2, said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--slurm"], "--slurm: no job of yours runs: name one with --slurm JOBID"),
        (["--slurm", "4711"], "--slurm: job 4711: Invalid job id specified"),
        (["--slurm", "1", "--agent", "tf1:7070"], "--agent and --slurm are two clusters: give one"),
    ],
)
def test_a_job_that_is_not_there_is_refused(slurm: RealSlurm, flags: list[str], said: str) -> None:
    done = slurm.run("tfscale-console", *flags, "--once")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tfscale-console: {said}\n")


def test_a_node_list_that_does_not_resolve_starts_nothing(slurm: RealSlurm) -> None:
    line = f"export SLURM_STEP_NODELIST=tf[1-; exec tfscale-agent -- python {TASK} 5 0"
    step = slurm.run("srun", "-N2", "bash", "-c", line)
    assert (step.returncode, step.stdout) == (2, "")
    assert step.stderr.count("tfscale-agent: SLURM_STEP_NODELIST: 'tf[1-'") == 2
    line = f"export SLURM_STEP_NODELIST=tf[1,3]; unset SLURMD_NODENAME; exec tfscale-agent -- python {TASK} 5 0"
    step = slurm.run("srun", "-N2", "bash", "-c", line)
    assert (step.returncode, step.stdout) == (2, "")
    assert "tfscale-agent: SLURM_STEP_NODELIST: the name of host tf3 does not resolve on tf" in step.stderr


def test_a_port_that_is_taken_starts_nothing(slurm: RealSlurm) -> None:
    taken = "import socket, time; s = socket.create_server(('', 14401)); print('up', flush=True); time.sleep(30)"
    holder = slurm.start("python", "-c", taken, host=2)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        line = f"unset SLURM_STEP_RESV_PORTS; export SLURM_JOB_ID=1; exec tfscale-agent -- python {TASK} 5 0"
        step = slurm.run("srun", "-n1", "-N1", "-w", "tf2", "bash", "-c", f"SLURM_STEP_NODELIST=tf2; {line}")
        assert (step.returncode, step.stdout) == (2, "")
        assert "port 14401 of tf2, for the agent of worker:0, is taken by process " in step.stderr
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.tensorflow
def test_a_real_training_is_measured(slurm: RealSlurm) -> None:
    """It is long enough to be seen: the epochs of the script are multiplied."""
    script = (PROGRAMS / "keras_fit.py").read_text().replace("epochs=3,", "epochs=8,")
    (slurm.home / "train.py").write_text(script)
    step = slurm.start("srun", "-N2", *AGENT, "train.py")
    until(lambda: len(programs()) >= 2, "the programs do not run")
    until(lambda: once(slurm)["steps_per_second"], "no rate of steps is shown")
    job = slurm.run("squeue", "-h", "-o", "%A").stdout.strip()
    out, errors = step.communicate(timeout=300)
    assert step.returncode == 0, errors
    assert out.count("trained as") == 2
    report = report_of(slurm, job)
    assert f"{job}.0.0: all tasks have ended well\n  steps     800 steps in " in report, report
    assert " productive; " in report


@pytest.mark.tensorflow
def test_a_size_is_measured_in_a_step_of_its_own(slurm: RealSlurm) -> None:
    words = ("mlp", "--launcher", "srun -n {workers}", "--sizes", "1,2", "--runs", "1", "--steps", "25")
    assert slurm.run("tfscale-train", "scale", "plan", *words).returncode == 0
    ended = slurm.run("tfscale-train", "scale", "run", "2", seconds=400)
    assert ended.returncode == 0, ended.stderr
    measured = json.loads((slurm.home / "scaling/size-2.jsonl").read_text())
    assert set(measured["workers"]) == {"worker:0", "worker:1"} and measured["is_joined"]
    assert sorted(path.name for path in (slurm.home / "scaling").iterdir()) == ["plan.json", "size-2.jsonl"]
