"""Variables as srun of Slurm 22.05 gave them; tests/e2e/slurm asks a real one."""

import re
from pathlib import Path

import pytest
from tfscale.agent.host.slurm_step import SlurmStep, grace_in, slurm_step
from tfscale.agent.host.task_roles import numbered_tasks
from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.errors import UsageError

STEP = {
    "SLURM_JOB_ID": "123",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NODEID": "1",
    "SLURM_GTIDS": "2,3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "tf[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURMD_NODENAME": "tf2",
}


def expand(node_list: str) -> list[str]:
    match = re.fullmatch(r"tf\[1-(\d+)\]", node_list)
    return [f"tf{number}" for number in range(1, int(match[1]) + 1)] if match else [node_list]


def step_of(**changes: str) -> SlurmStep:
    found = slurm_step({**STEP, **changes}, expand)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("changes", "seats"),
    [
        ({}, (0, 0, 1, 1)),
        ({"SLURM_DISTRIBUTION": "block:cyclic"}, (0, 0, 1, 1)),
        ({"SLURM_DISTRIBUTION": "cyclic", "SLURM_GTIDS": "0,2", "SLURMD_NODENAME": "tf1"}, (0, 1, 0, 1)),
        (
            {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "1", "SLURM_GTIDS": "1,3", "SLURM_PROCID": "1"},
            (0, 1, 0, 1),
        ),
        (
            {"SLURM_STEP_NODELIST": "tf[1-3]", "SLURM_STEP_TASKS_PER_NODE": "2,1(x2)", "SLURM_GTIDS": "2"},
            (0, 0, 1, 2),
        ),
        (
            {
                **{"SLURM_STEP_NODELIST": "tf[1-3]", "SLURM_STEP_TASKS_PER_NODE": "2,1(x2)", "SLURM_GTIDS": "2"},
                **{"SLURM_DISTRIBUTION": "cyclic", "SLURMD_NODENAME": "tf3"},
            },
            (0, 1, 2, 0),
        ),
    ],
)
def test_every_rank_has_its_host(changes: dict[str, str], seats: tuple[int, ...]) -> None:
    assert step_of(**changes).seats == seats


def test_a_task_and_its_agent_have_ports_that_no_other_of_their_host_has() -> None:
    document = step_of().document(numbered_tasks(4, {"chief": True, "ps": 1}))
    assert document == {
        "name": "123.0.0",
        "cluster": {"chief": ["tf1:22208"], "worker": ["tf1:22209", "tf2:22208"], "ps": ["tf2:22209"]},
        "agents": {"chief:0": "tf1:22210", "worker:0": "tf1:22211", "worker:1": "tf2:22210", "ps:0": "tf2:22211"},
    }
    reserved = step_of(SLURM_STEP_RESV_PORTS="21000-21001,21007").document(numbered_tasks(4, {}))
    assert reserved["cluster"]["worker"] == ["tf1:21000", "tf1:21001", "tf2:21000", "tf2:21001"]
    assert reserved["agents"]["worker:3"] == "tf2:22208", "the reserved ports do not do for all"
    others = [step_of(SLURM_JOB_ID=str(job), SLURM_STEP_ID=str(step)) for job in (123, 124, 125) for step in (0, 1)]
    used = {each.document(numbered_tasks(4, {}))["agents"]["worker:0"] for each in others}
    assert len(used) == 6, "jobs of one host have different ports"


def test_a_requeued_job_is_another_run_and_a_single_task_is_alone() -> None:
    assert step_of(SLURM_RESTART_COUNT="2").run == "123.0.2"
    one = step_of(
        **{"SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_PROCID": "0", "SLURM_GTIDS": "0"},
        **{"SLURM_STEP_NODELIST": "tf2"},
    )
    document = one.document(numbered_tasks(1, {}))
    assert document == {"name": "123.0.0", "cluster": "alone", "agents": {"worker:0": "tf2:22209"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_STEP_NUM_TASKS": ""},
        {"SLURM_PTY_PORT": "41000"},
        {"OMPI_COMM_WORLD_SIZE": "16"},
        {"PMI_SIZE": "8"},
    ],
)
def test_a_batch_script_an_interactive_shell_and_the_tasks_of_mpirun_are_no_step(changes: dict[str, str]) -> None:
    assert slurm_step({**STEP, **changes}, expand) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"SLURM_STEP_NODELIST": "tf[1-"},
            "SLURM_STEP_NODELIST: 'tf[1-' are 1 hosts (tf[1-), and srun has 4 tasks",
        ),
        ({"SLURM_STEP_TASKS_PER_NODE": "2x2"}, "SLURM_STEP_TASKS_PER_NODE: '2x2' has another form than 2(x3),1"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2,1"}, "SLURM_STEP_NODELIST: 'tf[1-2]' are 2 hosts (tf1, tf2), and srun has 4"),
        (
            {"SLURM_GTIDS": "1,3"},
            "task 2 of the step would be on tf2, and Slurm has it on tf2 with tasks 1,3: ",
        ),
        (
            {"SLURMD_NODENAME": "tf1"},
            "task 2 of the step would be on tf2, and Slurm has it on tf1 with tasks 2,3: ",
        ),
        ({"SLURM_PROCID": "7"}, "SLURM_PROCID: 7 is not one of 4 tasks"),
        ({"SLURM_JOB_ID": "x"}, "SLURM_JOB_ID: 'x' is no number, as srun gives it"),
    ],
)
def test_variables_that_do_not_fit_each_other_are_refused(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ClusterError) as refused:
        step_of(**changes)
    assert str(refused.value).startswith(said)


def test_roles_are_those_of_the_flags_and_somebody_trains() -> None:
    names = [str(task) for task in numbered_tasks(5, {"chief": True, "ps": 2, "evaluator": True})]
    assert names == ["chief:0", "worker:0", "ps:0", "ps:1", "evaluator:0"]
    with pytest.raises(UsageError, match="--ps and --evaluator: the launcher has started 3 tasks, and none is left"):
        numbered_tasks(3, {"ps": 2, "evaluator": True})


def test_a_task_has_less_time_to_end_than_slurm_gives_its_agent(tmp_path: Path) -> None:
    configuration = tmp_path / "slurm.conf"
    configuration.write_text("ClusterName=x\n  killwait = 60 # a minute\n")
    assert grace_in({"SLURM_CONF": str(configuration)}) == 48.0
    configuration.write_text("ClusterName=x\n#KillWait=90\n")
    assert grace_in({"SLURM_CONF": str(configuration)}) == 24.0


def test_a_host_without_scontrol_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="scontrol cannot be asked for its hosts \\(No such file or directory\\)"):
        slurm_step(STEP)
