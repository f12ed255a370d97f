import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.run.recommendations import recommend
from tfscale.console.analysis.step_groups import without_duplicates
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.console.wire import frames
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample, HostSample, Neighbour, PeerLink, TaskUsage
from tfscale.core.records.probe_status import Collective, Devices, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskStatus

Make = Callable[[int], Diagnostician]
Batch = Callable[..., StepBatch]
MakeFrame = Callable[..., Frame]


def play(observer: Diagnostician, simulation: Simulation) -> Findings:
    findings = observer.diagnose(0.0)
    for task, frame in simulation.frames():
        observer.observe(task, frame)
        if task == f"worker:{simulation.workers - 1}":
            findings = observer.diagnose(frame.at)
    return findings


def of_kind(findings: Findings, kind: str) -> list[Diagnosis]:
    return [diagnosis for diagnosis in findings.diagnoses if diagnosis.kind == kind]


def test_a_healthy_cluster_in_numbers(diagnostician: Make) -> None:
    findings = play(diagnostician(3), Simulation(3, 20.0, 30.0))
    assert findings.diagnoses == ()
    assert findings.headline.startswith("healthy: 3 workers in step, ")
    assert findings.steps_per_second == pytest.approx(19.0, rel=0.05)
    assert findings.examples_per_second == pytest.approx(64 * 19.0, rel=0.05)
    assert findings.step_time == pytest.approx(1 / 19.0, rel=0.05)
    assert findings.transfer == pytest.approx(0.05 * 0.15 / 1.15, rel=0.01)
    assert findings.slowdown == 1.0
    assert findings.subjects["worker:2"].compute == pytest.approx(0.05 * 0.85 / 1.15, rel=0.02)


@pytest.mark.parametrize("seconds", [600.0, -600.0])
def test_a_clock_that_is_set_takes_no_time_of_the_run(diagnostician: Make, seconds: float) -> None:
    observer, findings = diagnostician(3), None
    for task, frame in Simulation(3, 20.0, 60.0).frames():
        # The second before the clock was right again has steps of both clocks.
        moved = seconds if 20.5 < frame.at < 40.0 else 0.0
        steps = [
            replace(batch, end=[end + seconds * (20.5 < end < 39.5) for end in batch.end]) for batch in frame.steps
        ]
        observer.observe(task, replace(frame.with_steps(steps), at=frame.at + moved))
        if task == "worker:2":
            findings = observer.diagnose(frame.at)
    assert findings is not None and sum(findings.spent.values()) == pytest.approx(60.0, abs=2.0)
    assert findings.spent["unknown"] < 2.0 and findings.spent["productive"] > 50.0


def test_counters_are_decoded_of_the_first_frame_alone(
    diagnostician: Make, frame: MakeFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = TaskUsage(processes=2, threads=8, cpu=1.5, memory=1)
    link = PeerLink("worker:1", 1e6, 1e6, 0.1, 0.0, 0, 0, 0.001, 1e9, app_limited=False)
    host = HostSample(0.5, 4, None, 1, 2, 0, task=usage, links=(link,), neighbours=(Neighbour("worker:1", 1.0),))
    probe = ProbeStatus(ProbeState.MEASURING, devices=Devices(1, 1, 1))
    decoded = []
    decode = frames.ArrivedCounters._message.fget
    monkeypatch.setattr(frames.ArrivedCounters, "_message", property(lambda self: decoded.append(self) or decode(self)))
    observer = diagnostician(2)
    for second in range(1, 40):
        sent = frame(float(second), host=host, gpus=(GpuSample(0, "GPU-1", "A100"),), probe=probe)
        arrived = frames.frame(frames.frame_message(sent).SerializeToString())
        observer.observe("worker:0", arrived)
        assert {each is arrived.counters for each in decoded} == ({True} if second == 1 else set())
        assert (arrived.cores, arrived.gpu_count) == (sent.cores, sent.gpu_count) == (1.5, 1)
        decoded.clear()


def test_the_first_seconds_are_called_too_short_unless_the_agents_have_kept_the_steps_before(
    diagnostician: Make, frame: MakeFrame, batch: Batch
) -> None:
    early = play(diagnostician(3), Simulation(3, 20.0, 4.0))
    assert early.headline.endswith("; 3 s are too short to name a straggler")
    assert early.short_history is not None
    late = diagnostician(2)
    for worker in ("worker:0", "worker:1"):
        late.observe(worker, frame(20.0, batch(worker, 0, 400)))
    assert late.diagnose(20.0).headline.startswith("healthy: 2 workers in step, ")


def test_the_slow_one_has_the_lag_and_its_peer_the_wait(diagnostician: Make) -> None:
    findings = play(diagnostician(2), Simulation(2, 20.0, 30.0, slow=(Slow(1, extra=0.06),)))
    (straggler,) = of_kind(findings, "straggler")
    assert findings.headline == straggler.sentence
    assert findings.slowdown == pytest.approx(0.11 / 0.05, rel=0.05)
    fast, slow = findings.subjects["worker:0"], findings.subjects["worker:1"]
    assert fast.step_time == pytest.approx(slow.step_time, rel=0.01)
    assert fast.wait == pytest.approx(0.06, rel=0.05)
    assert slow.wait == pytest.approx(0.0, abs=1e-4)
    assert slow.ratio == pytest.approx(2.4, rel=0.05)
    assert slow.lag == pytest.approx((fast.lag or 0.0) + 0.06, rel=0.05)


def test_half_of_the_workers_slow_from_the_start_are_one_sentence_with_one_cost(diagnostician: Make) -> None:
    slow = tuple(Slow(worker, 1.4) for worker in (0, 2, 4, 6))
    findings = play(diagnostician(8), Simulation(8, 20.0, 30.0, slow=slow))
    stragglers = of_kind(findings, "straggler")
    assert {each.subject for each in stragglers} == {f"worker:{worker}" for worker in (0, 2, 4, 6)}
    assert {each.sentence for each in stragglers} == {findings.headline}
    assert findings.headline.startswith("4 of 8 workers (worker:0, 2, 4 and 6) have been slow for ")
    lost = 1 - 1 / (findings.slowdown or 1.0)
    assert findings.headline.endswith(f"(1.4x). The cluster loses {lost:.0%}. Two kinds of hardware?")
    assert lost > 0.15
    (told,) = {each.evidence["slowdown"] for each in stragglers}
    assert told == findings.slowdown
    (culprit,) = recommend(findings, None).culprits
    assert "a batch by its speed" in (first_step(culprit) or "")


def test_who_looks_slow_is_shown_before_it_is_named_and_is_no_diagnosis(diagnostician: Make) -> None:
    observer, simulation = diagnostician(8), Simulation(8, 20.0, 50.0, slow=(Slow(5, 1.4, begin=40.0),))
    suspects: dict[float, str | None] = {}
    named = []
    for task, frame in simulation.frames():
        observer.observe(task, frame)
        if task == "worker:7":
            findings = observer.diagnose(frame.at)
            suspects[frame.at] = findings.suspect and findings.suspect.subject
            named += [frame.at for each in of_kind(findings, "straggler")]
            if findings.suspect is not None:
                assert findings.diagnoses == () and "healthy" not in findings.headline
    shown = [at for at, subject in suspects.items() if subject == "worker:5"]
    assert set(suspects.values()) == {None, "worker:5"}
    assert shown[0] == pytest.approx(43.5, abs=1.0) and max(shown) < min(named) <= 47.0
    assert observer.diagnose(60.0).suspect is None, "of a cluster that stands still nothing is said about its pace"


def test_a_straggler_ends_once_when_its_gang_restarts(
    diagnostician: Make, frame: MakeFrame, status: Callable[..., TaskStatus], batch: Batch
) -> None:
    observer = diagnostician(2)
    assert of_kind(play(observer, Simulation(2, 20.0, 30.0, slow=(Slow(1, extra=0.06),))), "straggler")
    for worker in ("worker:0", "worker:1"):
        anew = batch(worker, 0, 10, generation=2, end=[30.0 + 0.05 * step for step in range(1, 11)])
        observer.observe(worker, frame(31.0, anew, status=status(generation=2)))
    (ended,) = observer.diagnose(31.0).diagnoses
    assert (ended.subject, ended.end) == ("worker:1", 31.0)
    assert observer.diagnose(32.0).diagnoses == ()


def test_before_any_frame_nothing_is_known(cluster: Callable[[int], ClusterSpec]) -> None:
    findings = Diagnostician(cluster(2)).diagnose(0.0)
    assert findings.headline == "waiting for the agents of worker:0 and worker:1, which have not answered so far"
    assert (findings.step_time, findings.steps_per_second, findings.slowdown, findings.transfer) == (None,) * 4
    assert dict(findings.subjects) == {}


def test_unknown_phases_are_unknown_and_name_nobody(diagnostician: Make, frame: MakeFrame, batch: Batch) -> None:
    observer = diagnostician(2)
    for second in range(30):
        observer.observe("worker:0", frame(second + 1.0, batch("worker:0", 20 * second, 20)))
        lost = batch("worker:1", 20 * second, 20, compute=[math.nan] * 20, input=[])
        observer.observe("worker:1", frame(second + 1.0, lost))
        findings = observer.diagnose(second + 1.0)
    assert findings.diagnoses == ()
    assert findings.steps_per_second == pytest.approx(20.0)
    assert (findings.slowdown, findings.transfer) == (None, None)
    summary = findings.subjects["worker:1"]
    assert (summary.compute, summary.input, summary.lag, summary.wait, summary.ratio) == (None,) * 5
    assert summary.update == pytest.approx(0.01)
    assert summary.step_time == pytest.approx(0.05)


def test_late_missing_and_repeated_frames_name_nobody(diagnostician: Make) -> None:
    observer = diagnostician(2)
    frames = list(Simulation(2, 20.0, 60.0).frames())
    for index, (task, frame) in enumerate(frames):
        if index % 7:
            observer.observe(*frames[max(0, index - 3)])
            observer.observe(task, frame)
        assert of_kind(observer.diagnose(frame.at), "straggler") == []


def test_an_agent_that_is_gone_does_not_stop_the_others_from_being_judged(diagnostician: Make) -> None:
    observer = diagnostician(4)
    for task, frame in Simulation(4, 20.0, 60.0, slow=(Slow(1, ratio=2.0, begin=30.0),)).frames():
        if task == "worker:3" and frame.at > 20.0:
            observer.note_link("worker:3", False, frame.at)
        else:
            observer.observe(task, frame)
        findings = observer.diagnose(frame.at)
    assert [straggler.subject for straggler in of_kind(findings, "straggler")] == ["worker:1"]


@pytest.mark.parametrize("first", range(5))
def test_the_first_workers_of_many_may_be_any(diagnostician: Make, frame: MakeFrame, batch: Batch, first: int) -> None:
    observer = diagnostician(320)
    observer.observe(f"worker:{first}", frame(5.1, batch(f"worker:{first}", 0, 100)))
    findings = observer.diagnose(5.1)
    assert (list(findings.subjects), findings.diagnoses) == ([f"worker:{first}"], ())


def test_replicas_of_one_task_are_compared_with_each_other(diagnostician: Make, frame: MakeFrame, batch: Batch) -> None:
    observer = diagnostician(1)
    for second in range(20):
        first = 20 * second
        fast = batch("worker:0/replica:0", first, 20, reduce=[0.03] * 20)
        slow = batch("worker:0/replica:1", first, 20, compute=[0.03] * 20)
        observer.observe("worker:0", frame(second + 1.0, fast, slow))
        findings = observer.diagnose(second + 1.0)
    assert [straggler.subject for straggler in of_kind(findings, "straggler")] == ["worker:0/replica:1"]
    assert findings.step_time == pytest.approx(0.07)
    assert findings.slowdown == pytest.approx(0.07 / 0.05)


def test_a_crash_a_hang_and_a_missing_task_are_all_told(
    diagnostician: Make, frame: MakeFrame, batch: Batch, died: Callable[..., TaskStatus]
) -> None:
    observer = diagnostician(2)
    observer.observe("worker:0", frame(40.0))
    observer.note_link("worker:1", False, 5.0)
    (late,) = observer.diagnose(40.0).diagnoses
    assert (late.kind, late.subject) == ("not_started", "worker:1")

    observer.note_link("worker:1", True, 41.0)
    for worker, inside in (("worker:0", Collective(20, 19)), ("worker:1", Collective(19, 19))):
        observer.observe(worker, frame(42.0, batch(worker, 800, 20)))
        observer.observe(worker, frame(110.0, collective=inside))
    findings = observer.diagnose(110.0)
    assert [(each.kind, each.subject, each.end) for each in findings.diagnoses] == [
        ("hang", "worker:1", None),
        ("not_started", "worker:1", 110.0),
    ]
    assert (findings.steps_per_second, findings.step_time) == (0.0, None)

    observer.observe("worker:1", frame(120.0, status=died(119.0, signal=9)))
    observer.diagnose(120.0)
    findings = observer.diagnose(124.0)
    assert [each.subject for each in of_kind(findings, "crash")] == ["worker:1"]
    assert findings.headline.startswith("worker:1 was killed by SIGKILL")


def test_unknown_tasks_and_subjects_are_left_out(diagnostician: Make, frame: MakeFrame, batch: Batch) -> None:
    observer = diagnostician(1)
    observer.observe("worker:7", frame(1.0))
    observer.observe("worker:0", frame(1.0, batch("worker:8", 0, 20), batch("nonsense", 0, 20)))
    observer.note_link("worker:7", True, 1.0)
    assert observer.diagnose(1.0).subjects == {}


def test_a_slow_replica_is_named_and_not_its_task_as_well(diagnostician: Make, frame: MakeFrame, batch: Batch) -> None:
    observer = diagnostician(2)
    for second in range(1, 41):
        first = 20 * (second - 1)
        slow, fast = {"compute": [0.03] * 20}, {"reduce": [0.03] * 20}
        for index in range(2):
            lags = (fast, slow) if index else (fast, fast)
            replicas = [batch(f"worker:{index}/replica:{each}", first, 20, **lag) for each, lag in enumerate(lags)]
            whole = batch(f"worker:{index}", first, 20, **(slow if index else fast))
            observer.observe(f"worker:{index}", frame(float(second), whole, *replicas))
        findings = observer.diagnose(float(second))
    assert [straggler.subject for straggler in of_kind(findings, "straggler")] == ["worker:1/replica:1"]


def found(subject: str, kind: str = "straggler") -> Diagnosis:
    return Diagnosis(kind, subject, 1.0, None, "warning", "")


def test_a_task_of_which_all_replicas_are_slow_is_slow_itself() -> None:
    tasks = [found("worker:1"), found("cluster", "imbalance")]
    replicas = [f"worker:{task}/replica:{index}" for task in range(2) for index in range(2)]
    slow = [found(subject) for subject in replicas if subject.startswith("worker:1")]
    assert without_duplicates(tasks, slow, replicas) == tasks
    assert without_duplicates(tasks, slow[:1], replicas) == [tasks[1], slow[0]]


def test_steps_that_reduce_nothing_have_a_step_time(diagnostician: Make, frame: MakeFrame, batch: Batch) -> None:
    observer = diagnostician(1)
    for second in range(1, 11):
        steps = batch("worker:0", 20 * (second - 1), 20, reduce=[])
        observer.observe("worker:0", frame(float(second), steps))
        findings = observer.diagnose(float(second))
    assert findings.step_time == pytest.approx(0.04)
    assert findings.steps_per_second == pytest.approx(20, rel=0.01)
    assert (findings.subjects["worker:0"].reduce, findings.transfer) == (None, None)


def test_steps_that_cannot_be_cut_into_phases_have_a_step_time(
    diagnostician: Make, frame: MakeFrame, batch: Batch
) -> None:
    observer = diagnostician(1)
    for second in range(1, 11):
        whole = batch("worker:0", 20 * (second - 1), 20, reduce=[], update=[], compute=[math.nan] * 20)
        observer.observe("worker:0", frame(float(second), whole))
        findings = observer.diagnose(float(second))
    assert findings.step_time == findings.subjects["worker:0"].step_time == pytest.approx(0.05)


def several_replicas(observer: Diagnostician, frame: MakeFrame, batch: Batch, lags: list[list[float]]) -> Findings:
    """Return the diagnoses of workers with these seconds of compute in each of their replicas."""
    step = max(map(max, lags)) + 0.02
    for second in range(1, 61):
        for index, own in enumerate(lags):
            names = [f"worker:{index}", *(f"worker:{index}/replica:{replica}" for replica in range(len(own)))]
            batches = [
                batch(name, 20 * (second - 1), 20, compute=[lag] * 20, reduce=[step - lag] * 20)
                for name, lag in zip(names, [max(own), *own], strict=True)
            ]
            observer.observe(f"worker:{index}", frame(float(second), *batches))
        findings = observer.diagnose(float(second))
    return findings


@pytest.mark.parametrize(
    ("lags", "subjects"),
    [
        ([[0.1, 0.1], [0.15, 0.15]], ["worker:1"]),
        ([[0.1, 0.1], [0.1, 0.2]], ["worker:1/replica:1"]),
        ([[0.1, 0.2], [0.1, 0.2]], ["worker:0/replica:1", "worker:1/replica:1"]),
    ],
)
def test_a_worker_or_the_replicas_in_it(
    diagnostician: Make, frame: MakeFrame, batch: Batch, lags: list[list[float]], subjects: list[str]
) -> None:
    findings = several_replicas(diagnostician(2), frame, batch, lags)
    assert [straggler.subject for straggler in of_kind(findings, "straggler")] == subjects
    assert (findings.slowdown or 0.0) > 1.3
