"""Simulated cluster of voters and registers: the code of the agents, on a network and disks that a seed makes up.

Messages are late, lost or doubled, the network is cut in two, agents end at any point and come back, disks lose what
was not synced yet, and sometimes a whole journal. In the end all is well, and a change must succeed within a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from consensus.virtual_loop import VirtualLoop
from tfscale.agent.consensus.decision import Decision
from tfscale.agent.consensus.joining import Joining
from tfscale.agent.consensus.quorum import Quorum, VoterLink
from tfscale.agent.consensus.register import NoMajority, OutcomeUnknown, Register, drawn
from tfscale.agent.consensus.vote_journal import VoteJournal
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.votes import Answer, Question
from tfscale.core.cluster.placement.electorate import Electorate

TROUBLE = 40.0
"""Seconds of faults."""
QUIET = 60.0
"""Seconds without faults, in which a change must succeed."""
_LOST, _DOUBLED = 0.05, 0.05
"""Shares of messages."""


class Disk:
    """File of one voter; a crash of its host keeps either the old content or the new one while that is written."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.content: str | None = None

    def read(self) -> bytes:
        """Return the content. Raises FileNotFoundError."""
        if self.content is None:
            raise FileNotFoundError
        return self.content.encode()

    async def replace(self, text: str) -> None:
        """Return once the content is safe."""
        try:
            await asyncio.sleep(self._random.uniform(0, 0.02))
        except asyncio.CancelledError:
            if self._random.random() < 0.5:
                self.content = text
            raise
        self.content = text


class LazyDisk(Disk):
    """Disk that says it has written what it has not yet."""

    async def replace(self, text: str) -> None:
        """Return at once."""
        loop = asyncio.get_running_loop()
        self._later = loop.call_later(self._random.uniform(0, 5), super().__setattr__, "content", text)


@dataclass(frozen=True)
class Plant:
    """Fault of the program that the simulation is to find."""

    disk: type[Disk] = Disk
    voter: type[Voter] = Voter
    joining: type[Joining] = Joining


RIGHT = Plant()


@dataclass
class Operation:
    """Change, or read, that somebody has asked for."""

    name: str
    """Text that it appends; empty for a read."""
    began: float
    ended: float | None = None
    """Time of its end; None where it has none, or one that says nothing."""
    decision: Decision | None = None
    is_refused: bool = False
    """True where it was told that nothing was decided."""


class Host:
    """Agent on one host, which ends and begins again."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name, self._cluster = name, cluster
        self.disk = cluster.plant.disk(cluster.random)
        self.tasks: dict[asyncio.Task[None], None] = {}
        self.voter: Voter | None = None
        self.begin()

    def begin(self) -> None:
        """Begin the agent's next life."""
        cluster, random = self._cluster, self._cluster.random
        self.voter = cluster.plant.voter(VoteJournal(self.disk, cluster.electorate.fingerprint, drawn(random)))
        links: dict[str, VoterLink] = {
            name: self.voter if name == self.name else _Way(cluster, self, name) for name in cluster.electorate.voters
        }
        quorum = Quorum(links)
        self.register = Register(self.name, cluster.electorate, quorum, random)
        joining = cluster.plant.joining(self.name, self.voter, cluster.electorate, quorum, random)
        self.start(joining.run())
        self._quorum = quorum

    def start(self, work: object) -> asyncio.Task[None]:
        """Have a coroutine go on until the agent's end."""
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self.tasks[task] = None
        task.add_done_callback(self.tasks.pop)
        return task

    async def end(self) -> None:
        """End the agent, wherever each of its tasks stands."""
        self.voter = None
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._quorum.close()


class _Way:
    """Way of one host to another one's voter."""

    def __init__(self, cluster: Cluster, own: Host, name: str) -> None:
        self._cluster, self._own, self._name = cluster, own, name

    async def ask(self, question: Question) -> Answer:
        cluster, random = self._cluster, self._cluster.random
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        for _ in range(1 + (random.random() < _DOUBLED)):
            cluster.send(self._own.name, self._name, lambda: self._arrive(question, answered))
        return await answered

    def _arrive(self, question: Question, answered: asyncio.Future[Answer]) -> None:
        host = self._cluster.hosts[self._name]
        if host.voter is not None:
            host.start(self._answer(host.voter, question, answered))

    async def _answer(self, voter: Voter, question: Question, answered: asyncio.Future[Answer]) -> None:
        answer = await voter.ask(question)
        arrive: Callable[[], object] = lambda: answered.done() or answered.set_result(answer)  # noqa: E731
        self._cluster.send(self._name, self._own.name, arrive)


class Cluster:
    """All hosts, and the network between them."""

    def __init__(self, seed: int, plant: Plant) -> None:
        self.random, self.plant = Random(seed), plant
        self.electorate = Electorate(tuple(f"h{n}" for n in range(self.random.choice([3, 3, 3, 5]))))
        self.cut: set[str] = set()
        """Hosts that reach one another and no others."""
        self.is_well = False
        self.operations: list[Operation] = []
        self.faults: dict[str, int] = {"cuts": 0, "ends": 0, "lost disks": 0}
        self.hosts: dict[str, Host] = {}
        for name in self.electorate.voters:
            self.hosts[name] = Host(name, self)

    def send(self, source: str, target: str, arrive: Callable[[], object]) -> None:
        """Have a message arrive later, or never."""
        if (source in self.cut) != (target in self.cut) or (not self.is_well and self.random.random() < _LOST):
            return
        late = self.random.random() < 0.05 and not self.is_well
        delay = self.random.uniform(0.001, 4.0 if late else 0.03)
        asyncio.get_running_loop().call_later(delay, arrive)

    async def run(self) -> None:
        """Live through the troubles and the quiet after them."""
        callers = [asyncio.create_task(self._call(name)) for name in self.hosts]
        loop = asyncio.get_running_loop()
        while loop.time() < TROUBLE:
            await asyncio.sleep(self.random.uniform(0.1, 3.0))
            await self._trouble()
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        self.cut, self.is_well = set(), True
        for host in self.hosts.values():
            if host.voter is None:
                host.begin()
        await asyncio.sleep(QUIET)
        await self._operate(next(iter(self.hosts.values())), "last")
        for host in self.hosts.values():
            await host.end()

    async def _trouble(self) -> None:
        host = self.random.choice(list(self.hosts.values()))
        kind = self.random.random()
        if kind < 0.35:
            self.cut = set(self.random.sample(sorted(self.hosts), self.random.randint(0, len(self.hosts) - 1)))
            self.faults["cuts"] += bool(self.cut)
        elif kind < 0.75 and host.voter is not None:
            may_lose = self._has_lost_few(host) and self.random.random() < 0.4
            await host.end()
            self.faults["ends"] += 1
            if may_lose:
                host.disk.content = None
                self.faults["lost disks"] += 1
        elif host.voter is None:
            host.begin()

    def _has_lost_few(self, host: Host) -> bool:
        """Decide whether one more journal may be lost: a majority of voters must keep theirs."""
        voting = [each for each in self.hosts.values() if each.voter is not None and each.voter.is_voting]
        return host in voting and len(voting) > self.electorate.majority

    async def _call(self, name: str) -> None:
        number = 0
        while True:
            await asyncio.sleep(self.random.uniform(0.05, 2.0))
            host = self.hosts[name]
            if host.voter is not None:
                number += 1
                text = f"{name}.{number}" if self.random.random() < 0.7 else ""
                work = host.start(self._operate(host, text))
                await asyncio.wait([work])

    async def _operate(self, host: Host, name: str) -> None:
        operation = Operation(name, asyncio.get_running_loop().time())
        self.operations.append(operation)
        change: Callable[[bytes], bytes] = lambda value: value + f"{name} ".encode() if name else value  # noqa: E731
        try:
            operation.decision = await host.register.change(change)
        except OutcomeUnknown:
            return
        except NoMajority:
            operation.is_refused = True
            return
        operation.ended = asyncio.get_running_loop().time()


def faults_of(operations: list[Operation]) -> list[str]:
    """Return each contradiction of a history to one order in which its operations happened, each at once."""
    told = [each for each in operations if each.decision is not None]
    faults, longest = [], b""
    for each in sorted(told, key=lambda operation: len(operation.decision.value)):  # type: ignore[union-attr]
        value = each.decision.value  # type: ignore[union-attr]
        if not value.startswith(longest):
            faults.append(f"{value!r} was told, and {longest!r}")
        longest = value
        if each.name and each.name.encode() not in value.split():
            faults.append(f"{each.name} was told as done, and is not in {value!r}")
    made = longest.decode().split()
    if len(set(made)) < len(made):
        faults.append(f"a change was made twice: {made}")
    refused = [each.name for each in operations if each.is_refused and each.name in made]
    faults += [f"{name} was told as not done, and is in {made}" for name in refused]
    for former in told:
        for later in told:
            if former.ended is not None and former.ended < later.began and _version(later) < _version(former):
                faults.append(f"{later} began after {former} had ended, and knows less")
    if not any(each.name == "last" and each.decision for each in operations):
        faults.append("no change succeeded although all agents were well for a minute")
    return faults


def _version(operation: Operation) -> int:
    assert operation.decision is not None
    return operation.decision.version


@dataclass(frozen=True)
class Outcome:
    """Result of one seed."""

    seed: int
    hosts: int
    operations: int
    done: int
    unknown: int
    troubles: Mapping[str, int]
    faults: list[str]

    def row(self) -> dict[str, object]:
        """Return the cells of its row in a table, by their columns."""
        named = {"hosts": self.hosts, "changes and reads": self.operations, "done": self.done, "unknown": self.unknown}
        return {**named, **self.troubles}


def simulate(seed: int, plant: Plant = RIGHT) -> Outcome:
    """Return what became of a cluster; the same for the same seed."""
    loop = VirtualLoop()

    async def life() -> Cluster:
        cluster = Cluster(seed, plant)
        await cluster.run()
        return cluster

    try:
        cluster = loop.run_until_complete(life())
    finally:
        loop.close()
    operations = cluster.operations
    done = sum(each.decision is not None for each in operations)
    refused = sum(each.is_refused for each in operations)
    return Outcome(
        seed=seed,
        hosts=len(cluster.hosts),
        operations=len(operations),
        done=done,
        unknown=len(operations) - done - refused,
        troubles=cluster.faults,
        faults=faults_of(operations),
    )
