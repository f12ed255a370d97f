"""Rules before a first run: what to try, simplest first, by what is known of hosts and devices.

They are rules that people use, not measurements of this program (docs/how-it-works/comparison.md#advice).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Role
from tfscale.core.preflight.checkup import Checkup
from tfscale.core.text import plural

_SLOW = 1e9
"""Bits a second up to which a link is slow for gradients: 10 MB take a tenth of a second."""
_UNEQUAL = 1.1
"""Ratio of the hosts' memory from which on they are told unequal: firmware takes a few percent of equal ones."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a cluster that does not train; None unknown."""

    workers: int
    servers: int
    has_chief: bool
    hosts: int
    gpus: tuple[int, ...] | None = None
    """GPUs of each host that has answered."""
    memory: tuple[int, ...] | None = None
    """Bytes of each host that has answered."""
    slowest: float | None = None
    """Bits a second of the slowest link in the cluster file."""

    @property
    def are_unequal(self) -> bool | None:
        """True where hosts differ in GPUs or memory; None where fewer than two have answered."""
        if self.gpus is None or self.memory is None or len(self.gpus) < 2:
            return None
        return len(set(self.gpus)) > 1 or max(self.memory) > _UNEQUAL * min(self.memory)


def facts_of(spec: ClusterSpec, checkup: Checkup | None) -> Facts:
    """Return the facts of a cluster file, and of the agents that have answered, if any."""
    roles = Counter(task.role for task in spec.tasks)
    trained = {address.host for task, address in spec.tasks.items() if task.role in (Role.CHIEF, Role.WORKER)}
    by_host = {}
    for task, answer in (checkup.answers if checkup else {}).items():
        if answer.examination is not None and task.role in (Role.CHIEF, Role.WORKER):
            by_host[answer.host or spec.tasks[task].host] = answer.examination
    return Facts(
        # A chief trains, too, unless servers hold the variables.
        workers=roles[Role.WORKER] + (roles[Role.CHIEF] if not roles[Role.PS] else 0),
        servers=roles[Role.PS],
        has_chief=bool(roles[Role.CHIEF]),
        hosts=len(trained),
        gpus=tuple(each.gpus for each in by_host.values()) or None,
        memory=tuple(each.memory_total for each in by_host.values()) or None,
        slowest=min(spec.link_speeds.values(), default=None),
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: when it holds, what to do, and the command; `{run}` in it is the program."""

    holds: Callable[[Facts], bool | None]
    sentence: str
    command: str


_RULES = (
    Rule(
        lambda facts: facts.servers > 0 and not facts.has_chief,
        "parameter servers without a chief wait for ever in TensorFlow 2: name a chief in the cluster file",
        "tfscale-console init --chief HOST --workers HOSTS --ps HOSTS",
    ),
    Rule(
        lambda _: True,
        "one device first: its speed is what every further device is measured against",
        "tfscale-console run -- {run}",
    ),
    Rule(lambda _: True, "the batch that is large enough, and fits", "tfscale-train batch -- {run} --batch {batch}"),
    Rule(
        lambda _: True,
        "input in the order shuffle, map in parallel, batch, cache where it fits, prefetch",
        "tfscale-train compare --set prefetch=0,2 -- {run} --prefetch {prefetch}",
    ),
    Rule(
        lambda facts: max(facts.gpus or (0,)) > 0,
        "mixed precision: float16 pays on GPUs from compute capability 7.0 on; which these have is not known here",
        "tfscale-train compare --set precision=float32,mixed_float16 -- {run}",
    ),
    Rule(
        lambda facts: facts.hosts == 1 and max(facts.gpus or (0,)) > 1,
        "several GPUs of one host: MirroredStrategy, with the learning rate times the replicas",
        "tfscale-train compare --set replicas=1,2 -- {run}",
    ),
    Rule(
        lambda facts: facts.workers > 1 and not facts.are_unequal and not facts.servers,
        "several workers, where the hosts are equal: MultiWorkerMirroredStrategy, with the learning rate times the "
        "workers; few strong hosts before many weak ones",
        "tfscale-train scale --sizes 1,2 -- {run}",
    ),
    Rule(
        lambda facts: facts.slowest is not None and facts.slowest <= _SLOW and facts.workers > 1,
        "links of 1 Gbit/s or less: bfloat16 on the wire halves the bytes of each all-reduce",
        "tfscale-train compare --set wire=float32,bfloat16 --set workers=2 -- {run} --wire {wire}",
    ),
    Rule(
        lambda facts: facts.are_unequal,
        "hosts that are not equal: in synchronous training all wait for the slowest; ParameterServerStrategy lets each "
        "go at its own pace",
        "tfscale-console init --chief HOST --workers HOSTS --ps HOSTS",
    ),
)
"""Rules in the order of their effort."""
_UNKNOWN = "not known before a first step: size of the model, and so whether it fits beside its activations"


def first_advice(facts: Facts, program: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sentences that hold, each with its command."""
    run = shlex.join(program) or "python train.py"
    return [(rule.sentence, rule.command.replace("{run}", run)) for rule in _RULES if rule.holds(facts)]


def first_lines(facts: Facts, program: Sequence[str]) -> Iterator[str]:
    """Yield the rules as lines for people."""
    known = ", ".join(map(str, facts.gpus or ()))
    gpus = "GPUs not known, since no agent answers" if facts.gpus is None else f"GPUs by host: {known}"
    size = f"{plural(facts.workers, 'worker')} on {plural(facts.hosts, 'host')}"
    yield f"Rules that people use for {size} ({gpus}), the simplest first; models of gains need measured steps"
    for number, (sentence, command) in enumerate(first_advice(facts, program), 1):
        yield f"{number:>3}. {sentence}"
        yield f"     {command}"
    yield _UNKNOWN
