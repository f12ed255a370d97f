"""Launchers that start a program as one of several, known by the variables that they give to each.

Which host each of them is on is in no variable that all launchers share: that makes no cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

_COUNTS = (("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_SIZE",), ("PMI_SIZE",))
"""Variables with the number of tasks, by launcher, the most exact first: srun, Open MPI, MPICH and others with PMI."""
_INDEX = "JOB_COMPLETION_INDEX"
"""Variable with the number of a pod of an indexed Job of Kubernetes, which is not told how many there are."""


def others_unknown(environment: Mapping[str, str]) -> str:
    """Return the words about a program that a launcher counts among others, and that has no cluster; else empty."""
    for names in _COUNTS:
        name = next((name for name in names if name in environment), "")
        if environment.get(name, "").isdecimal() and int(environment[name]) > 1:
            return _words(f"its launcher counts {environment[name]} tasks ({name})")
    return _words(f"its launcher numbers its tasks ({_INDEX})") if environment.get(_INDEX) else ""


def _words(launched: str) -> str:
    return (
        f"{launched}, and no cluster is known: it is watched by itself, and whether it waits for others is not known; "
        "give each --cluster FILE or a TF_CONFIG"
    )
