"""Sources with prepared events, and a diagnosis that always finds the same."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from tfscale.console.analysis.condition.cluster_condition import ClusterCondition
from tfscale.console.analysis.detector import ClusterView
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.step_groups import StepGroups
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    Profile,
    SecondPassed,
)
from tfscale.console.engine.inbox import Inbox
from tfscale.console.engine.model import Link, Snapshot, TaskView
from tfscale.console.engine.state import ClusterState
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import Stack
from tfscale.core.access.orders import Order
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.diagnosis import Diagnosis, Evidence, Remedy
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.host_sample import GpuSample, HostSample, Interface, Pressure, TaskUsage
from tfscale.core.records.probe_status import Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import Exit, Stage, TaskState, TaskStatus

NOW = 1_800_000_000.0


def worker(index: int) -> Task:
    return Task(Role.WORKER, index)


def spec(workers: int = 2) -> ClusterSpec:
    tasks = [worker(index) for index in range(workers)]
    return ClusterSpec(
        "digits",
        {task: Address(f"10.0.{task.index // 250}.{2 + task.index % 250}", 2222) for task in tasks},
        {task: Address(f"10.0.{task.index // 250}.{2 + task.index % 250}", 7070) for task in tasks},
    )


def status(state: TaskState = TaskState.RUNNING, **fields: object) -> TaskStatus:
    known = {"generation": 1, "attempt": 1, "pid": 4242, "started": NOW - 754}
    return replace(TaskStatus(state, **known), **fields)  # type: ignore[arg-type]


def steps(task: Task, first: int = 0, count: int = 3) -> StepBatch:
    columns = {
        phase: array("f", [value] * count)
        for phase, value in (("update", 0.004), ("host", 0.003), ("input", 0.006), ("compute", 0.04), ("reduce", 0.02))
    }
    return StepBatch(
        generation=1,
        attempt=1,
        reporter=str(task),
        subject=str(task),
        sequence=array("Q", range(first, first + count)),
        end=array("d", [NOW + 0.073 * index for index in range(count)]),
        global_step=array("Q", range(first, first + count)),
        **columns,
    )


def frame(task: Task, sequence: int = 1, at: float = NOW, of: TaskStatus | None = None) -> Frame:
    return Frame(
        sequence=sequence,
        at=at,
        status=of or status(),
        probe=ProbeStatus(
            ProbeState.MEASURING,
            strategy="MultiWorkerMirroredStrategy",
            replicas=2,
            examples_per_step=128,
            reduced_bytes_per_step=7_450_000,
            tensorflow="2.21.0",
            keras="keras 3.15.1",
            checkpoint=NOW - 95,
        ),
        collective=Collective(entered=12, left=12),
        host=HostSample(
            cpu=0.61,
            cores=16,
            load=6.2,
            memory_used=21_000_000_000,
            memory_total=64_000_000_000,
            swap_used=0,
            pressure=Pressure(0.03, 0.0, 0.01),
            interfaces=(Interface("eth0", 118e6, 117e6, 10e9),),
            task=TaskUsage(1, 84, 9.4, 3_400_000_000),
        ),
        steps=(steps(task, sequence * 3),),
    )


def description(task: Task) -> Description:
    return Description(
        version="0.1.0",
        run="digits",
        task=str(task),
        lead="worker:0",
        host=f"node-{task.index:02}",
        cluster="{}",
        command=("python", "train.py"),
        log_path=f"/var/lib/tfscale/digits/worker-{task.index}.log",
        generation=1,
        started=NOW - 800,
        pid=1000 + task.index,
    )


def task_view(cluster: ClusterSpec, task: Task) -> TaskView:
    return TaskView(task, cluster.agents[task], Link(LinkState.UP), description(task), frame(task))


def healthy_events(cluster: ClusterSpec) -> list[Event]:
    events: list[Event] = []
    for task in cluster.tasks:
        events.append(LinkChanged(NOW - 30, task, LinkState.UP))
        events.append(AgentDescribed(NOW - 30, task, description(task)))
        events.append(FrameArrived(NOW, task, frame(task)))
    return events


def gpu_events(cluster: ClusterSpec) -> list[Event]:
    """Return events of a healthy cluster with eight GPUs a host; those of worker:1 are warm."""
    events = []
    for event in healthy_events(cluster):
        if isinstance(event, FrameArrived):
            warm = event.task == worker(1)
            gpus = tuple(gpu(index, 90.0 if warm else 55.0 + index) for index in range(8))
            event = replace(event, frame=replace(event.frame, gpus=gpus))
        events.append(event)
    return events


def gpu(index: int, temperature: float) -> GpuSample:
    return GpuSample(
        index, f"GPU-{index}", "A100", utilisation=0.97 - 0.02 * index, memory_used=33_000_000_000,
        memory_total=40_000_000_000, power=310.0, temperature=temperature, clock=1_410_000_000, clock_max=1_410_000_000,
    )  # fmt: skip


def killed_events(cluster: ClusterSpec) -> list[Event]:
    """Return events in which worker:1 is killed and all others exit 1 after it."""
    events = healthy_events(cluster)
    for task in cluster.tasks:
        how = Exit(None, 9, NOW - 4) if task == worker(1) else Exit(1, None, NOW - 2.2)
        ended = status(TaskState.EXITED, pid=None, exit=how)
        events.append(FrameArrived(NOW, task, replace(frame(task, 2, of=ended), steps=())))
    return events


def cut_events(cluster: ClusterSpec) -> list[Event]:
    """Return events in which the agent of worker:1 is lost."""
    return [*healthy_events(cluster), LinkChanged(NOW - 12, worker(1), LinkState.DOWN, "connection refused")]


def summaries(cluster: ClusterSpec, slow: Task | None = None) -> dict[str, SubjectSummary]:
    longest = 0.053 + (0.06 if slow else 0.0)
    found = {}
    for task in cluster.tasks:
        compute = 0.1 if task == slow else 0.04
        lag = 0.013 + compute
        wait = longest - lag
        found[str(task)] = SubjectSummary(
            step=1203,
            global_step=1203,
            step_time=longest + 0.012,
            update=0.004,
            host=0.003,
            input=0.006,
            compute=compute,
            reduce=wait + 0.012,
            wait=wait,
            lag=lag,
            ratio=2.13 if task == slow else 1.0,
        )
    return found


def healthy_findings(cluster: ClusterSpec) -> Findings:
    sentence = f"healthy: {len(cluster.tasks)} workers in step, 15.4 steps/s, no straggler"
    return Findings((), sentence, 0.065, 15.38, 1969.0, 1.0, 0.012, summaries(cluster))


def straggler(sentence: str = "", end: float | None = None, severity: str = "serious") -> Diagnosis:
    text = "worker:1 has been slow for 100 s (since 07:58:20): compute takes 113 ms, the others' 53.0 ms (2.1x)"
    evidence: Evidence = {"ratio": 2.13, "phase": "compute"}
    return Diagnosis("straggler", "worker:1", NOW - 100, end, severity, sentence or text, evidence)


def straggler_findings(cluster: ClusterSpec) -> Findings:
    found = straggler()
    slow = worker(1)
    return Findings((found,), found.sentence, 0.125, 8.0, 1024.0, 1.92, 0.012, summaries(cluster, slow), top=found)


def crash_findings(cluster: ClusterSpec) -> Findings:
    sentence = "worker:1 was killed by signal 9 at 07:59:56; worker:0 followed 1.8 s later"
    crash = Diagnosis("crash", "worker:1", NOW - 4, None, "critical", sentence)
    return Findings((crash,), sentence, None, None, None, None, None, summaries(cluster), top=crash)


def cut_findings(cluster: ClusterSpec) -> Findings:
    return replace(healthy_findings(cluster), headline="no contact with the agent of worker:1")


DIAGNOSES: dict[str, Diagnosis] = {
    diagnosis.kind: diagnosis
    for diagnosis in (
        Diagnosis(
            "hang", "worker:1", NOW - 95, None, "critical",
            "worker:1 has been stuck for 95 s (since 07:58:25): it has not entered the all-reduce in which worker:0 "
            "and worker:2 wait; see its log and its stack",
        ),
        Diagnosis(
            "not_started", "worker:1", NOW - 40, None, "serious",
            "worker:1 has not joined: its process says nothing; worker:0 and worker:2 wait for it, 40 s now",
        ),
        Diagnosis(
            "not_finite", "cluster", NOW - 9, None, "serious",
            "the loss has not been a number since 07:59:51, seen at step 1,196: what is trained from here on is lost",
        ),
        Diagnosis(
            "slowdown", "cluster", NOW - 50, None, "warning",
            "since 07:59:10 the all-reduce has taken 24.8 ms a step, before 11.8 ms (2.1x): the network is slower, the "
            "workers are not. The cluster loses 17%.", {"part": "transfer", "cause": "network"},
        ),
        Diagnosis(
            "imbalance", "cluster", NOW - 70, None, "warning",
            "the slowest of each step costs the cluster 34% of its throughput, but it is not always the same one: "
            "uneven work or noisy hosts, nobody to repair; mostly in compute", {"phase": "compute"},
        ),
        Diagnosis(
            "saturation", "cluster", NOW - 70, None, "serious",
            "communication-bound: the all-reduce takes 62% of each step; what would help: gradients cast to bfloat16 "
            "for the wire (at most +45% throughput)",
            remedies=(
                Remedy("gradients cast to bfloat16 for the wire", 1.45, at_most=True),
                Remedy("accumulating 4 micro-batches", 1.87),
            ),
            statement="communication-bound: the all-reduce takes 62% of each step",
        ),
    )
}  # fmt: skip


def findings_of(kind: str, cluster: ClusterSpec) -> Findings:
    found = DIAGNOSES[kind]
    return replace(healthy_findings(cluster), diagnoses=(found,), headline=found.sentence, top=found)


class FakeAnalysis:
    """Analysis that finds what it was given, and remembers what it was asked."""

    def __init__(self, findings: Findings | None = None) -> None:
        self.findings = findings or Findings()
        self.frames: list[tuple[str, Frame]] = []
        self.links: list[tuple[str, bool]] = []
        self.left: set[str] = set()
        self.described: dict[str, Description] = {}

    def observe(self, task: str, frame: Frame) -> None:
        self.frames.append((task, frame))

    def describe(self, task: str, description: Description) -> None:
        self.described[task] = description

    def note_link(self, task: str, up: bool, at: float, *, has_left: bool = False) -> None:
        assert at > 0
        self.links.append((task, up))
        self.left = self.left - {task} | ({task} if has_left else set())

    def diagnose(self, now: float) -> Findings:
        assert now > 0
        return self.findings


class ScriptedSource:
    """Source that gives its events at once, then a second that has passed, and then waits for ever."""

    is_live = False

    def __init__(self, spec: ClusterSpec, events: Sequence[Event] = ()) -> None:
        self.spec = spec
        self.events = events
        self.seconds = 0

    def now(self) -> float:
        return NOW + self.seconds

    async def run(self, inbox: Inbox) -> None:
        self.inbox = inbox
        for event in self.events:
            inbox.put(event)
        self.tick(0)
        await asyncio.Event().wait()

    def tick(self, seconds: int = 1) -> None:
        """Let seconds pass."""
        self.seconds += seconds
        self.inbox.put(SecondPassed(self.now()))


class Told:
    """Listener that remembers what it gets."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.snapshots: list[Snapshot] = []

    def event_folded(self, event: Event) -> None:
        self.events.append(event)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)


class FakeCommands:
    """Commands that succeed without an agent; each raises `error` where that is set."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.orders: list[tuple[str, tuple[Task, ...], int]] = []
        self.without: list[str] = []
        self.carried_out: list[tuple[str, Task | None, str]] = []
        self.profiled: list[tuple[Task, float]] = []
        self.refusal = ""

    def why_no_order(self) -> str:
        return self.refusal

    async def order(self, verb: str, tasks: Sequence[Task], generation: int = 0) -> AsyncIterator[CommandProgressed]:
        self.orders.append((verb, tuple(tasks), generation))
        if self.error:
            raise CommandError(self.error)
        for stage in (Stage.PLANNED, Stage.STOPPING, Stage.STARTING, Stage.RUNNING, Stage.DONE):
            yield CommandProgressed(NOW, verb, stage, tuple(tasks), generation + 1)

    async def restart_without(self, host: str) -> AsyncIterator[CommandProgressed]:
        self.without.append(host)
        if self.error:
            raise CommandError(self.error)
        yield CommandProgressed(NOW, "restart", Stage.PLANNED, (), 2, "worker:1 to host-c")
        yield CommandProgressed(NOW, "restart", Stage.DONE, (), 2)

    async def carry_out(self, order: Order, task: Task | None, argument: str) -> str:
        self.carried_out.append((order.name, task, argument))
        if self.error:
            raise CommandError(self.error)
        return f"{argument} is done"

    async def stack(self, task: Task) -> Stack:
        if self.error:
            raise CommandError(self.error)
        text = (
            "Main thread (most recent call first):\n"
            f'  File "/home/ada/{task.role}.py", line 41 in on_train_batch_end\n'
            '  File "/home/ada/train.py", line 58 in <module>\n\n'
            "Thread 0x00007f2ac35fe6c0 (most recent call first):\n"
            '  File "/usr/lib/python3.11/threading.py", line 331 in wait'
        )
        return Stack(NOW, 4242, text)

    async def profile(self, task: Task, seconds: float, *, fetch: bool = False) -> AsyncIterator[Profile]:
        self.profiled.append((task, seconds))
        if self.error:
            raise CommandError(self.error)
        folder = f"/var/lib/tfscale/digits/profiles/{task.role}-{task.index}"
        yield Profile(f"capturing for {seconds:g} s", folder)
        yield Profile("written", folder, f"{folder}/plugins/profile/now/node.xplane.pb", 1_200_000)
        if fetch:
            yield Profile("written", folder, content=bytes(1_200_000))

    async def log_end(self, task: Task, tail: int, *, of_orders: bool = False) -> list[str]:
        return [f"{task} {'order' if of_orders else 'line'} {number}" for number in range(tail)]

    async def follow_log(self, task: Task, tail: int) -> AsyncIterator[tuple[str, ...]]:
        yield tuple(f"{task} line {number}" for number in range(tail))
        await asyncio.Event().wait()


def folded(cluster: ClusterSpec, *events: Event, findings: Findings | None = None) -> ClusterState:
    """Return a state that has folded these events."""
    state = ClusterState(cluster, FakeAnalysis(findings))
    for event in events:
        state.fold(event)
    return state


def ended_events(cluster: ClusterSpec, code: int) -> list[Event]:
    """Return events in which all tasks exit with this code."""
    ended = status(TaskState.EXITED, pid=None, exit=Exit(code, None, NOW))
    return [FrameArrived(NOW, task, frame(task, 5, of=ended)) for task in cluster.tasks]


def views(count: int = 12) -> list[TaskView]:
    """Return views of a cluster in which worker:1 is slow and warm."""
    cluster = spec(count)
    summary_of = summaries(cluster, worker(1))
    return [
        TaskView(
            task,
            cluster.agents[task],
            Link(LinkState.UP, "", NOW - 30),
            description(task),
            replace(frame(task), gpus=(busy_gpu(0.97 - task.index / 100, 90.0 if task.index == 1 else 60.0),)),
            summary_of[str(task)],
            diagnoses=(straggler(),) if task.index == 1 else (),
        )
        for task in cluster.tasks
    ]


def busy_gpu(use: float, heat: float) -> GpuSample:
    return GpuSample(0, "GPU-0", "A100", utilisation=use, memory_used=33_000_000_000, temperature=heat, power=300.0)


def cluster_view(tasks: Mapping[str, ObservedTask], now: float) -> ClusterView:
    """Return the view of tasks of which no step is known, as detectors get it."""
    return ClusterView(now, tasks, ClusterCondition(), StepGroups(tasks, Rule()).judge(local_steps=1))
