"""Faults of a simulated cluster, each from one line."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.records.step_batch import LAG_PHASES
from tfscale.core.text import plural

KINDS = {
    "kill": "its process is killed, and the others abort 2 s later",
    "hang": "it enters no all-reduce any more",
    "stop": "a signal stops its process",
    "cut": "its agent cannot be reached",
    "gone": "its host is cut off from the network: its agent cannot be reached, and nobody makes a step",
    "nan": "its gradients are no numbers in one step, and then everybody's loss is none",
    "thermal": "its GPU is too hot and slows itself down to 70 %",
    "cpu": "other processes take its host's processors",
    "link": "its link to the next worker is eight times slower",
    "uneven": "of a parameter server: it holds most of the variables",
}
"""Kinds of faults besides slowdowns (`1.4x`, `60ms`), with their effects."""
STANDSTILLS = ("hang", "stop", "gone")
"""Kinds of faults whose task makes the others wait in the all-reduce."""
HOST_KINDS = ("cut", "gone", "thermal", "cpu", "link")
"""Kinds of faults that stay on the host when its task starts anew, there or elsewhere."""
SLOW_LINK = 8.0
"""Factor on the time that a slow link takes for the same bytes."""
HOT_CLOCK = 0.7
"""Share of its clock that an overheated GPU keeps."""
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_FORM = re.compile(
    rf"(?P<task>\w+:\d+)=(?P<what>[a-z]+|(?P<number>{_NUMBER})(?P<unit>x|ms))(,(?P<phase>\w+))?"
    rf"(@(?P<begin>{_NUMBER})s(-(?P<end>{_NUMBER})s)?)?"
)
EXAMPLE = "worker:3=1.4x,compute@30s"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one task, from `begin` to `end` in seconds of the simulation."""

    task: Task
    kind: str
    """`slow`, or one of KINDS."""
    ratio: float = 1.0
    extra: float = 0.0
    """Extra seconds a step."""
    phase: str = "compute"
    begin: float = 0.0
    end: float = math.inf
    words: str = ""
    """The fault as it was written."""

    def __str__(self) -> str:
        return self.words

    def holds(self, at: float) -> bool:
        return self.begin <= at < self.end

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse `worker:3=1.4x,compute@30s`, `worker:1=60ms`, `worker:2=cut@20s-40s`. Raises UsageError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise UsageError(f"{text!r}: write TASK=WHAT[,PHASE][@FROM[-TO]], for example {EXAMPLE}")
        what, phase = match["what"], match["phase"] or "compute"
        task = Task.parse(match["task"])
        if phase not in LAG_PHASES:
            raise UsageError(f"{text!r}: phase {phase!r} is none of {', '.join(LAG_PHASES)}")
        begin, end = float(match["begin"] or 0), float(match["end"] or math.inf)
        if end <= begin:
            raise UsageError(f"{text!r}: it ends before it begins")
        if number := match["number"]:
            if not float(number):
                raise UsageError(f"{text!r}: {what} is no slowdown: write a number above 0")
            if match["unit"] == "ms":
                return cls(task, "slow", extra=float(number) / 1000, phase=phase, begin=begin, end=end, words=text)
            return cls(task, "slow", ratio=float(number), phase=phase, begin=begin, end=end, words=text)
        if what not in KINDS:
            raise UsageError(f"{text!r}: {what!r} is no fault: use 1.4x, 60ms, {', '.join(KINDS)}")
        return cls(task, what, begin=begin, end=end, words=text)


def check_fault(fault: Fault, spec: ClusterSpec) -> None:
    """Raise UsageError for a fault that no task of this cluster can have."""
    workers = sum(task.role is Role.WORKER for task in spec.tasks)
    servers = sum(task.role is Role.PS for task in spec.tasks)
    among = f"{plural(workers, 'simulated worker')}" + (f" with {plural(servers, 'server')}" if servers else "")
    if fault.task not in spec.tasks:
        raise UsageError(f"--fault: there is no {fault.task} among {among}")
    needs = {
        "link": (servers == 0 and workers > 1, "two workers in step: leave out --ps"),
        "nan": (servers == 0, "workers in step: leave out --ps"),
        "uneven": (servers > 1 and fault.task.role is Role.PS, "one of two parameter servers or more: --ps 2"),
        "thermal": (fault.task.role is Role.WORKER, "a worker, which has a GPU"),
    }
    fits, what = needs.get(fault.kind, (True, ""))
    if not fits:
        raise UsageError(f"--fault {fault}: it needs {what}")
    if fault.kind == "slow" and fault.task.role is Role.CHIEF:
        raise UsageError(f"--fault {fault}: the chief makes no step: slow a worker or a server down")
