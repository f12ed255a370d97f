import pytest
from tfscale.agent.cli import read_settings

TF_CONFIG = '{"cluster": {"worker": ["127.0.0.1:2000", "127.0.0.1:2001"]}, "task": {"type": "worker", "index": 0}}'


@pytest.mark.parametrize(
    ("environment", "counted"),
    [
        ({"SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, "counts 2 tasks (SLURM_NTASKS)"),
        ({"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "4"}, "counts 4 tasks (SLURM_STEP_NUM_TASKS)"),
        ({"SLURM_NTASKS": "1", "OMPI_COMM_WORLD_SIZE": "8"}, "counts 8 tasks (OMPI_COMM_WORLD_SIZE)"),
        ({"PMI_SIZE": "3"}, "counts 3 tasks (PMI_SIZE)"),
        ({"JOB_COMPLETION_INDEX": "0"}, "numbers its tasks (JOB_COMPLETION_INDEX)"),
    ],
)
def test_a_task_of_a_launcher_without_a_cluster_is_known_to_have_others(
    environment: dict[str, str], counted: str
) -> None:
    (settings,) = read_settings(["--", "python", "train.py"], environment)
    assert settings.others_unknown == (
        f"its launcher {counted}, and no cluster is known: it is watched by itself, and whether it waits for others is "
        "not known; give each --cluster FILE or a TF_CONFIG"
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
