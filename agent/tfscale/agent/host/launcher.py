"""Launchers that start a program as one of several, known by the variables that they give to each.

Which host each of them is on is in no variable that all launchers share: that makes no cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfscale.agent.host.indexed_job import INDEX

_COUNTS = (("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_SIZE",), ("PMI_SIZE",))
"""Variables with the number of tasks, by launcher, the most exact first: Slurm, Open MPI, MPICH and others with PMI."""
_SRUN = "start them by srun tfscale-agent -- COMMAND"
_FILE = "give each --cluster FILE or a TF_CONFIG"
_PODS = "give the number of its pods with --pods"
_SPARSE = "its TF_CONFIG names only the tasks that it has to know (sparseCluster)"


def others_unknown(environment: Mapping[str, str]) -> str:
    """Return the words about a program that a launcher counts among others, and that has no cluster; else empty."""
    for names in _COUNTS:
        name = next((name for name in names if name in environment), "")
        if environment.get(name, "").isdecimal() and int(environment[name]) > 1:
            remedy = _SRUN if name.startswith("SLURM") else _FILE
            return _words(f"its launcher counts {environment[name]} tasks ({name})", remedy)
    if "sparseCluster" in environment.get("TF_CONFIG", ""):
        return _words(_SPARSE, "give each --cluster FILE")
    return _words(f"its launcher numbers its tasks ({INDEX})", _PODS) if environment.get(INDEX) else ""


def _words(launched: str, remedy: str) -> str:
    return (
        f"{launched}, and no cluster is known: it is watched by itself, and whether it waits for others is not known; "
        f"{remedy}"
    )
