"""Text of a new cluster file: its tasks, and what else it could have, as comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tfscale.core.cluster.cluster_spec import DEFAULT_AGENT_PORT, Address
from tfscale.core.cluster.task import Role
from tfscale.core.text import listing, plural

_TLS = """\
[tls]                       # PEM files, relative to this file: tfscale-agent certificates makes them
ca = "ca.pem"               # the same everywhere
certificate = "own.pem"     # of this host, or of this person
key = "own.key"
"""
_REST = f"""\
# [agents]                  # where agents listen. Left out: each on its task's host, from port {DEFAULT_AGENT_PORT} on
# "worker:0" = "{{worker}}:7171"

# [links]                   # speed of each task's link, by which its use is judged. Left out: unknown
# default = "10Gbit/s"

# [program]                 # what agents start when their command line names no program
# command = ["python", "train.py"]
# directory = "/srv/training"
# environment = {{{{ OMP_NUM_THREADS = "4" }}}}

# [recovery]                # what agents start again unasked. Left out: nothing
# policy = "OnFailure"      # or "Always", "ExitCode", "Never"
# max_restarts = 10
# period = "1h"

# [spares]                  # agents that hold no task until one is placed there
# agents = ["spare-host:{DEFAULT_AGENT_PORT}"]

# [cost]                    # what lost time costs, in reports and the headline. Left out: GPU-hours only
# per_gpu_hour = 2.50
# currency = "EUR"

# [devices]                 # TFLOP/s of one device, for the types of the program: MFU is told. Left out: it is not
# peak_tflops = 989
"""


def commented_file(tasks: Mapping[Role, Sequence[Address]], name: str | None, *, has_tls: bool) -> str:
    """Return a cluster file with these tasks; what is commented out holds once it is not."""
    counts = listing([plural(len(addresses), "worker") if role is Role.WORKER else f"{len(addresses)} {role}"
                      for role, addresses in tasks.items()])  # fmt: skip
    roles = "\n".join(f"{role} = {_list(addresses)}" for role, addresses in tasks.items())
    named = (
        f"name = {json.dumps(name)}" if name else '# name = "digits"        # of the run. Left out: the file\'s name'
    )
    tls = _TLS if has_tls else "".join(f"# {line}\n" for line in _TLS.splitlines())
    worker = next(iter(tasks.get(Role.WORKER, next(iter(tasks.values()))))).host
    return (
        f"# Cluster of {counts}. Give it to each agent and console: --cluster FILE.\n{named}\n\n"
        f"[cluster]                   # address at which each task serves TensorFlow\n{roles}\n\n{tls}\n"
        f"{_REST.format(worker=worker)}"
    )


def _list(addresses: Sequence[Address]) -> str:
    """Return a list in TOML, four addresses a line."""
    words = [json.dumps(str(address)) for address in addresses]
    if len(words) <= 4:
        return f"[{', '.join(words)}]"
    lines = [", ".join(words[begin : begin + 4]) for begin in range(0, len(words), 4)]
    return "[\n" + "".join(f"    {line},\n" for line in lines) + "]"
