"""Simulated cluster: the whole agents of three workers and a spare, on hosts and a network that a seed has fail.

The agents are the real ones, from `placed_agent.run` on; `outside.py` says what is in the place of the kernel and of
gRPC. After the faults all is well, perhaps but for one host that never comes back, and the gang must train.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import grpc.aio
from simulated.histories import History, Order
from simulated.host_lives import Clock, HostsLoop, Life
from simulated.outside import Disks, Log, Outside, QuietProcess
from simulated.simulated_calls import Channel, Network
from simulated.simulated_tasks import Processes
from tfscale.agent import wire
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.consensus.vote_journal import VoteFile, VoteJournal
from tfscale.agent.life import placed_agent
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.placement.seat import Seat
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.electorate import electorate_of
from tfscale.core.cluster.placement.placement import Placement, file_placement
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.task_status import Stage, TaskStatus
from tfscale.v1 import agent_pb2, agent_pb2_grpc

TROUBLE, QUIET = 120.0, 75.0
"""Seconds of faults, and seconds without, after which the gang must train: a minute by the slowest clock."""
_REBORN = (1.0, 6.0)
"""Limits of the seconds until an agent that has ended is started again, as by systemd."""
_INSISTENCE = 6
"""Tries to give an order."""
HOSTS = ("h0", "h1", "h2", "spare")


class Host:
    """Host with one agent, and the disk of both."""

    def __init__(self, name: str, settings: AgentSettings, cluster: Cluster) -> None:
        self.name, self.settings, self._cluster = name, settings, cluster
        self.life: Life | None = None
        self.daemon: placed_agent.Life | None = None
        self.is_off = False
        self.is_gone = False
        """True where the host never comes back."""

    def begin(self) -> None:
        """Start the agent, unless it is there or its host is off."""
        if self.life is None and not self.is_off:
            self.life = life = Life(self.name, self._cluster.clocks[self.name])
            life.start(self._live(life))

    @property
    def seat(self) -> Seat | None:
        """Seat of the agent, None while it is not there."""
        if isinstance(self.daemon, Daemon):
            return self.daemon._parts.seat
        return None if self.daemon is None else self.daemon._seat

    @property
    def operation(self) -> Operation | None:
        """Command that the agent has given last."""
        return self.daemon._parts.gang._operation if isinstance(self.daemon, Daemon) else None

    async def _live(self, life: Life) -> None:
        cluster = self._cluster
        try:
            await placed_agent.run(self.settings, QuietProcess(), self._on_daemon)
        except TfscaleError as error:
            cluster.history.notes.append(f"the agent of {self.name} ended: {error}")
        except Exception as error:
            cluster.history.note(f"the agent of {self.name} raised {error!r}")
        life.is_alive = False
        cluster.network.leave(life)
        if self.life is life:
            self.life = self.daemon = None
            asyncio.get_running_loop().call_later(cluster.random.uniform(*_REBORN), self.begin)

    def _on_daemon(self, daemon: placed_agent.Life) -> None:
        self.daemon = daemon

    async def kill(self) -> None:
        """Kill the agent; its task goes on."""
        life, self.life, self.daemon = self.life, None, None
        if life is not None:
            life.is_alive = False
            self._cluster.network.leave(life)
            await life.kill()

    async def crash(self, *, loses_disk: bool = False) -> None:
        """Turn the host off."""
        self.is_off = True
        self._cluster.network.down.add(self.name)
        await self.kill()
        self._cluster.processes.crash(self.name)
        if loses_disk:
            shutil.rmtree(self.settings.state_dir)
            self.settings.state_dir.mkdir(mode=0o700)

    async def lose(self) -> None:
        """Turn the host off for good."""
        self.is_gone = True
        await self.crash()

    def boot(self) -> None:
        """Turn the host on, and start its agent."""
        if self.is_gone:
            return
        self.is_off = False
        self._cluster.network.down.discard(self.name)
        self.begin()


class Cluster:
    """All hosts, the network between them, and the operator."""

    def __init__(self, random: Random, root: Path, **policy: object) -> None:
        self.random, self.history = random, History()
        self.network = Network(random, self.history.note)
        self.spec = _spec(policy)
        self.electorate = electorate_of(self.spec)
        self.clocks = {name: _clock(random) for name in HOSTS}
        self.disks, self.processes = Disks(random), Processes(random, self.clocks)
        self.history.stays = self.processes.stays
        self._ordering: list[asyncio.Task[Order]] = []
        self.hosts: dict[str, Host] = {}
        for name, seat in zip(HOSTS, (*self.spec.agents.values(), *self.spec.spares), strict=True):
            folder = root / name
            folder.mkdir(mode=0o700)
            home = next((task for task, agent in self.spec.agents.items() if agent == seat), self.spec.lead)
            self.hosts[name] = Host(name, _settings(self.spec, home, seat, folder), self)

    def cut_off(self, *names: str) -> None:
        """Let these hosts reach one another and no others."""
        apart = set(names)
        self.network.cut = {frozenset((a, b)) for a in apart for b in HOSTS if b not in apart}

    @property
    def voters(self) -> set[str]:
        """Hosts whose agents vote."""
        return {host.name for host in self.hosts.values() if str(host.settings.seat) in self.electorate.voters}

    def voting(self) -> set[str]:
        """Return the hosts whose journals have votes."""
        found = set()
        for name in self.voters:
            file = VoteFile(self.hosts[name].settings.files.folder / f"vote-{name}-7070.json")
            if VoteJournal(file, self.electorate.fingerprint, "").entry.is_voting:
                found.add(name)
        return found

    async def all_well(self) -> None:
        """End all faults."""
        self.network.cut, self.network.is_well, self.disks.full = set(), True, set()
        for host in self.hosts.values():
            host.boot()

    async def order(
        self, verb: str, tasks: Sequence[str] = (), without: Sequence[str] = (), asked: Host | None = None
    ) -> Order:
        """Give an order to this agent or to some one with a task, as a console does; return what became of it."""
        loop = asyncio.get_running_loop()
        order = Order(verb, loop.time())
        self.history.orders.append(order)
        asked = asked or self.random.choice(list(self.hosts.values()))
        if not isinstance(asked.daemon, Daemon):
            order.is_refused = True
            return order
        settings = asked.daemon._settings
        async with Channel(self.network, "", str(settings.listen)) as channel:
            stub = agent_pb2_grpc.AgentStub(channel)  # type: ignore[arg-type]
            to = wire.identity_message(settings.identity)
            try:
                if verb == "uncordon":
                    await stub.Order(agent_pb2.OrderRequest(to=to, name=verb, argument=without[0]), timeout=20)
                    return order
                request = agent_pb2.TasksRequest(to=to, tasks=tasks, without=without, reason="asked for")
                async for progress in getattr(stub, verb.capitalize())(request, timeout=60):
                    order.take(progress, loop.time())
            except grpc.aio.AioRpcError as error:
                order.end(error)
        return order

    def begin_order(self, verb: str, tasks: Sequence[str], asked: Host) -> None:
        """Give an order as `order` does, and wait for nothing."""
        self._ordering.append(asyncio.create_task(self.order(verb, tasks, asked=asked)))

    def placement(self) -> Placement:
        """Return the newest placement that an agent knows."""
        known = [host.seat.placement for host in self.hosts.values() if host.seat is not None]
        return max([*known, file_placement(self.spec)], key=lambda placement: placement.order)

    def trains(self) -> bool:
        """Decide whether each task of the placement runs in its place, in one generation, and nothing else does."""
        living = [process.stay for process in self.processes.living.values()]
        placed = {(seat.host, str(task)) for task, seat in self.placement().seats.items()}
        generations = {stay.generation for stay in living}
        return {(stay.host, stay.task) for stay in living} == placed and len(generations) == 1

    async def until(
        self, reached: Callable[[], object], within: float = 60.0, what: str = "", glance: float = 0.05
    ) -> None:
        """Wait until a condition holds, looking each `glance` seconds; it is a fault where `what` takes longer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not reached():
            if loop.time() > deadline:
                if what:
                    self.history.note(f"not within {within:g} s: {what}")
                return
            await asyncio.sleep(glance)

    async def apart(self, name: str, seconds: float) -> None:
        """Cut a host off for some seconds, in which nothing may start there: it does not know what the others do."""
        self.cut_off(name)
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        if started := [stay for stay in self.processes.stays if stay.host == name and stay.began > since]:
            self.history.note(f"started without a majority: {started}")
        self.network.cut = set()

    def fail_task(self, task: str) -> None:
        """Have the newest process of a task fail."""
        running = [process for process in self.processes.living.values() if process.stay.task == task]
        for process in running[-1:]:
            process.end(1)

    @property
    def generation(self) -> int:
        """Generation of the newest command."""
        return max((host.operation.intent.generation for host in self.hosts.values() if host.operation), default=0)

    @property
    def newest_started(self) -> int:
        """Newest generation in which a task was started."""
        return max((stay.generation for stay in self.processes.stays), default=0)

    def all_stopped(self) -> bool:
        """Decide whether the newest command has just stopped its last task."""
        given = [host.operation for host in self.hosts.values() if host.operation is not None]
        newest = max(given, key=lambda operation: operation.intent.generation)
        stages = [progress.stage for progress in newest._history]
        return stages[-1] is Stage.STOPPED and stages.count(Stage.STOPPED) == len(newest.tasks)

    def stage(self) -> Stage | None:
        """Return the stage of the newest command that is under way."""
        given = [host.operation for host in self.hosts.values() if host.operation is not None]
        newest = max(given, key=lambda operation: operation.intent.generation, default=None)
        return None if newest is None else newest._history[-1].stage

    def statuses(self) -> dict[str, TaskStatus]:
        """Return the status of each task as its agent tells it."""
        found = {}
        for host in self.hosts.values():
            if isinstance(host.daemon, Daemon):
                parts = host.daemon._parts
                found[f"{host.name} {parts.settings.task}"] = parts.supervisor.status
        return found


Story = Callable[[Cluster], Awaitable[None]]
"""Faults of a cluster, from the start of its agents on."""


def _clock(random: Random) -> Clock:
    return Clock(random.uniform(0.8, 1.25) if random.random() < 0.3 else 1.0, random.choice([0.0, -3600.0, 40.0]))


def _spec(policy: Mapping[str, object]) -> ClusterSpec:
    workers = [Task(Role.WORKER, index) for index in range(3)]
    usual: dict[str, object] = {
        "by_role": dict.fromkeys(Role, RestartPolicy.ON_FAILURE),
        "backoff": 1.0,
        "most_backoff": 4.0,
        "replace_after": 10.0,
        "max_restarts": 1000,
        "without_progress": 1000,
        "cordon_after": 1000,
    }
    recovery = RecoveryPolicy(**{**usual, **policy})  # type: ignore[arg-type]
    return ClusterSpec(
        name="simulated",
        tasks={task: Address(name, 2222) for task, name in zip(workers, HOSTS, strict=False)},
        agents={task: Address(name, 7070) for task, name in zip(workers, HOSTS, strict=False)},
        spares={Address("spare", 7070): Address("spare", 2222)},
        recovery=recovery,
    )


def _settings(spec: ClusterSpec, task: Task, seat: Address, folder: Path) -> AgentSettings:
    return AgentSettings(
        cluster=spec,
        task=task,
        command=("train",),
        run="simulated",
        state_dir=folder,
        listen=seat,
        seat=seat,
        working_folder=folder,
        insecure=True,
        grace=2.0,
    )


async def random_troubles(cluster: Cluster) -> None:
    """Let faults happen and give orders as chance has it."""
    random, loop = cluster.random, asyncio.get_running_loop()
    orders: list[asyncio.Task[None]] = []
    while loop.time() < TROUBLE:
        await asyncio.sleep(random.uniform(0.5, 12.0))
        host = random.choice(list(cluster.hosts.values()))
        kind = random.choice(_KINDS)
        cluster.history.count(kind)
        match kind:
            case "cut":
                names = random.sample(HOSTS, random.choice([1, 1, 2]))
                if random.random() < 0.3 and len(names) == 2:
                    cluster.network.cut = {frozenset(names)}
                else:
                    cluster.cut_off(*names)
                if random.random() < 0.5 and cluster.processes.stays:
                    cluster.processes.break_gang(cluster.processes.stays[-1].generation)
            case "heal":
                cluster.network.cut = set()
            case "kill":
                await host.kill()
                loop.call_later(random.uniform(0.2, 20.0), host.begin)
            case "crash":
                await host.crash()
                loop.call_later(random.uniform(2.0, 60.0), host.boot)
            case "lost disk":
                others = cluster.voting() - {host.name}
                if len(others) >= cluster.electorate.majority:
                    await host.crash(loses_disk=True)
                    loop.call_later(random.uniform(2.0, 40.0), host.boot)
            case "full disk":
                cluster.disks.full ^= {host.name}
            case "failure":
                for process in cluster.processes.on(host.name):
                    process.end(random.choice([1, -9]))
            case "upgrade":
                if host.daemon is not None:
                    host.life.run(host.daemon.hand_over)
            case "clean end":
                if host.daemon is not None and host.name not in cluster.disks.full:
                    cluster.history.orders.append(Order("start", loop.time()))  # its next agent starts cold
                    host.life.run(host.daemon.leave)
            case "order":
                orders.append(asyncio.create_task(_random_order(cluster)))
    for order in orders:
        order.cancel()
    await asyncio.gather(*orders, return_exceptions=True)
    if random.random() < 0.4 and cluster.voting() - {host.name} >= cluster.voters - {host.name}:
        await host.lose()
        cluster.history.count("gone host")


_KINDS = (
    *("cut", "heal", "kill", "failure", "order") * 2,
    *("crash", "lost disk", "full disk", "upgrade", "clean end"),
)


async def _random_order(cluster: Cluster) -> None:
    """Give an order, and insist on it for a while as an operator does."""
    random = cluster.random
    verb = random.choice(["restart", "restart", "stop", "start", "without"])
    tasks, without = [f"worker:{random.randint(0, 2)}"], [random.choice(HOSTS)]
    for _ in range(_INSISTENCE):
        if verb == "without":
            order = await cluster.order("restart", without=without)
        else:
            order = await cluster.order(verb, tasks)
        if order.done is not None:
            return
        await asyncio.sleep(random.uniform(0.5, 5.0))


@dataclass(frozen=True)
class Outcome:
    """Result of one simulation."""

    seed: int
    generations: int
    orders: int
    done: int
    troubles: Mapping[str, int]
    faults: list[str]
    notes: list[str] = field(default_factory=list)
    """Events that explain the faults."""

    def row(self) -> dict[str, object]:
        """Return the cells of its row in a table, by their columns."""
        named = {"generations": self.generations, "orders": self.orders, "done": self.done}
        return {**named, "faults": ", ".join(f"{number} {kind}" for kind, number in sorted(self.troubles.items()))}


def simulate_agents(
    seed: int,
    story: Story = random_troubles,
    tell: Callable[[str], None] | None = None,
    **policy: object,
) -> Outcome:
    """Return what became of a cluster; the same for the same seed. `tell` is given each line of the agents' logs."""
    loop, random = HostsLoop(), Random(seed)
    logger = logging.getLogger("tfscale")
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as root:
        cluster = Cluster(random, Path(root), **policy)
        outside = Outside(loop, random, cluster.network, cluster.disks, cluster.processes)
        log = Log(loop, cluster.history.note, tell)
        loop.set_exception_handler(
            lambda _, context: cluster.history.note(f"{context.get('message')}: {context.get('exception')!r}")
        )
        level = logger.level
        logger.addHandler(log)
        logger.setLevel(log.level)
        try:
            with outside.in_place():
                loop.run_until_complete(_live(cluster, story))
        finally:
            logger.removeHandler(log)
            logger.setLevel(level)
            loop.close()
    history = cluster.history
    return Outcome(
        seed=seed,
        generations=cluster.newest_started,
        orders=len(history.orders),
        done=sum(order.done is not None for order in history.orders),
        troubles=history.troubles,
        faults=history.faults(),
        notes=history.notes,
    )


async def _live(cluster: Cluster, story: Story) -> None:
    for host in cluster.hosts.values():
        host.begin()
    await story(cluster)
    await cluster.all_well()
    await asyncio.sleep(QUIET)
    cluster.history.end(cluster)
    for host in cluster.hosts.values():
        await host.kill()


def _fast_folder() -> str | None:
    """Return a folder in memory, None where there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
