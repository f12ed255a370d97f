import pytest
from tfscale.agent.cli import read_settings

TF_CONFIG = '{"cluster": {"worker": ["127.0.0.1:2000", "127.0.0.1:2001"]}, "task": {"type": "worker", "index": 0}}'
SRUN = "start them by srun tfscale-agent -- COMMAND"
FILE = "give each --cluster FILE or a TF_CONFIG"


@pytest.mark.parametrize(
    ("environment", "counted", "remedy"),
    [
        ({"SLURM_NTASKS": "2", "SLURM_PROCID": "0"}, "counts 2 tasks (SLURM_NTASKS)", SRUN),
        ({"SLURM_NTASKS": "1", "OMPI_COMM_WORLD_SIZE": "8"}, "counts 8 tasks (OMPI_COMM_WORLD_SIZE)", FILE),
        ({"PMI_SIZE": "3"}, "counts 3 tasks (PMI_SIZE)", FILE),
        (
            {"JOB_COMPLETION_INDEX": "0"},
            "numbers its tasks (JOB_COMPLETION_INDEX)",
            "give the number of its pods with --pods",
        ),
    ],
)
def test_a_task_of_a_launcher_without_a_cluster_is_known_to_have_others(
    environment: dict[str, str], counted: str, remedy: str
) -> None:
    (settings,) = read_settings(["--", "python", "train.py"], environment)
    assert settings.others_unknown == (
        f"its launcher {counted}, and no cluster is known: it is watched by itself, and whether it waits for others is "
        f"not known; {remedy}"
    )


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_NTASKS": "1"},
        {"PMI_SIZE": ""},
        {"SLURM_NTASKS": "2", "TF_CONFIG": TF_CONFIG},
    ],
)
def test_a_single_task_and_one_of_a_known_cluster_have_none(environment: dict[str, str]) -> None:
    (settings,) = read_settings(["--insecure", "--", "python", "train.py"], environment)
    assert settings.others_unknown == ""
