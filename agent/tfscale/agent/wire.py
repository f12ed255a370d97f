"""Records to protobuf messages and back: the only module of the agent that knows both."""

from __future__ import annotations

from array import array

from tfscale.agent.cluster.gang import OperationProgress
from tfscale.agent.on_demand.profile_requests import ProfileOrder, ProfileProgress, ProfileReport, ProfileStage
from tfscale.agent.on_demand.stack_requests import StackDump
from tfscale.agent.on_demand.task_log import LogLines
from tfscale.core.records import (
    PHASES,
    SCHEMA_VERSION,
    Activity,
    ActivityKind,
    Collective,
    Coordinator,
    Description,
    Exit,
    Frame,
    GpuSample,
    HostSample,
    Pressure,
    ProbeState,
    ProbeStatus,
    ServerTraffic,
    Stage,
    StepBatch,
    TaskState,
    TaskStatus,
    TaskUsage,
    Training,
    WorkerFunctions,
)
from tfscale.v1 import agent_pb2, report_pb2, telemetry_pb2

_TASK_STATES = {state: telemetry_pb2.TaskState.Value(f"TASK_STATE_{state.name}") for state in TaskState}
_TASK_STATES_BACK = {number: state for state, number in _TASK_STATES.items()}
_PROBE_STATES = {state: telemetry_pb2.ProbeState.Value(f"PROBE_STATE_{state.name}") for state in ProbeState}
_PROBE_STATES_BACK = {number: state for state, number in _PROBE_STATES.items()}
_ACTIVITIES = {kind: telemetry_pb2.ActivityKind.Value(f"ACTIVITY_KIND_{kind.name}") for kind in ActivityKind}
_ACTIVITIES_BACK = {number: kind for kind, number in _ACTIVITIES.items()}
_PROFILE_STAGES = {stage: report_pb2.ProfileStage.Value(f"PROFILE_STAGE_{stage.name}") for stage in ProfileStage}
_PROFILE_STAGES_BACK = {number: stage for stage, number in _PROFILE_STAGES.items()}
_STAGES = {stage: agent_pb2.Stage.Value(f"STAGE_{stage.name}") for stage in Stage}


class WireError(ValueError):
    """A message that no record can hold; the text says why."""


def snapshot_reply(description: Description, recent: tuple[Frame, ...]) -> agent_pb2.WatchReply:
    snapshot = agent_pb2.Snapshot(description=description_message(description), recent=map(frame_message, recent))
    return agent_pb2.WatchReply(schema_version=SCHEMA_VERSION, snapshot=snapshot)


def frame_reply(frame: Frame) -> agent_pb2.WatchReply:
    return agent_pb2.WatchReply(schema_version=SCHEMA_VERSION, frame=frame_message(frame))


def description_message(record: Description) -> agent_pb2.Description:
    return agent_pb2.Description(
        schema_version=SCHEMA_VERSION,
        version=record.version,
        run=record.run,
        task=record.task,
        lead=record.lead,
        host=record.host,
        cluster=record.cluster,
        command=record.command,
        log_path=record.log_path,
        generation=record.generation,
        started=record.started,
        pid=record.pid,
    )


def frame_message(record: Frame) -> telemetry_pb2.Frame:
    return telemetry_pb2.Frame(
        sequence=record.sequence,
        at=record.at,
        status=status_message(record.status),
        probe=None if record.probe is None else _probe_message(record.probe),
        collective=None if record.collective is None else _collective_message(record.collective),
        host=None if record.host is None else _host_message(record.host),
        gpus=map(_gpu_message, record.gpus),
        steps=map(_steps_message, record.steps),
        dropped=record.dropped,
        training=None if record.training is None else _training_message(record.training),
        activities=map(_activity_message, record.activities),
        coordinator=None if record.coordinator is None else _coordinator_message(record.coordinator),
    )


def status_message(record: TaskStatus) -> telemetry_pb2.TaskStatus:
    return telemetry_pb2.TaskStatus(
        state=_TASK_STATES[record.state],
        generation=record.generation,
        attempt=record.attempt,
        pid=record.pid,
        started=record.started,
        exit=None if record.exit is None else _exit_message(record.exit),
        reason=record.reason,
    )


def status_record(message: telemetry_pb2.TaskStatus) -> TaskStatus:
    """Raises WireError for a state that this version does not know."""
    if message.state not in _TASK_STATES_BACK:
        raise WireError(f"task state {message.state} is unknown to this version: upgrade this agent")
    return TaskStatus(
        state=_TASK_STATES_BACK[message.state],
        generation=message.generation,
        attempt=message.attempt,
        pid=message.pid if message.HasField("pid") else None,
        started=message.started if message.HasField("started") else None,
        exit=_exit_record(message.exit) if message.HasField("exit") else None,
        reason=message.reason,
    )


def progress_message(record: OperationProgress) -> agent_pb2.Progress:
    return agent_pb2.Progress(
        stage=_STAGES[record.stage],
        tasks=map(str, record.tasks),
        generation=record.generation,
        message=record.message,
        at=record.at,
    )


def log_message(record: LogLines) -> agent_pb2.LogChunk:
    return agent_pb2.LogChunk(lines=record.lines, rotated=record.rotated)


def stack_message(record: StackDump) -> agent_pb2.StackReply:
    return agent_pb2.StackReply(at=record.at, pid=record.pid, text=record.text)


def order_message(record: ProfileOrder) -> report_pb2.ProfileOrder:
    return report_pb2.ProfileOrder(number=record.number, seconds=record.seconds, folder=record.folder)


def profile_report_record(message: report_pb2.ProfileReport) -> ProfileReport:
    stage = _PROFILE_STAGES_BACK.get(message.stage, ProfileStage.FAILED)
    return ProfileReport(message.number, stage, message.file, message.message)


def profile_message(record: ProfileProgress) -> agent_pb2.ProfileReply:
    return agent_pb2.ProfileReply(
        stage=_PROFILE_STAGES[record.stage], at=record.at, folder=record.folder, file=record.file, bytes=record.bytes
    )


def probe_record(message: telemetry_pb2.ProbeStatus) -> ProbeStatus:
    """Raises WireError for a state that this version does not know."""
    if message.state not in _PROBE_STATES_BACK:
        raise WireError(f"probe state {message.state} is unknown to this agent: upgrade it")

    def known(name: str) -> int | None:
        value: int | None = getattr(message, name) if message.HasField(name) else None  # type: ignore[arg-type]
        return value

    return ProbeStatus(
        state=_PROBE_STATES_BACK[message.state],
        message=message.message,
        strategy=message.strategy if message.HasField("strategy") else None,
        replicas=known("replicas"),
        local_replicas=known("local_replicas"),
        ranks=known("ranks"),
        reduced_bytes_per_step=known("reduced_bytes_per_step"),
        examples_per_step=known("examples_per_step"),
        tensorflow=message.tensorflow if message.HasField("tensorflow") else None,
        keras=message.keras if message.HasField("keras") else None,
        warnings=tuple(message.warnings),
        collective=message.collective if message.HasField("collective") else None,
        checkpoint=message.checkpoint if message.HasField("checkpoint") else None,
    )


def collective_record(message: telemetry_pb2.Collective) -> Collective:
    at = message.entered_at if message.HasField("entered_at") else None
    return Collective(message.entered, message.left, at)


def training_record(message: telemetry_pb2.Training) -> Training:
    return Training(
        epoch=message.epoch if message.HasField("epoch") else None,
        global_step=message.global_step if message.HasField("global_step") else None,
        loss=message.loss if message.HasField("loss") else None,
        finite=message.finite if message.HasField("finite") else None,
        learning_rate=message.learning_rate if message.HasField("learning_rate") else None,
    )


def activity_record(message: telemetry_pb2.Activity) -> Activity:
    """Raises WireError for a kind that this version does not know."""
    if message.kind not in _ACTIVITIES_BACK:
        raise WireError(f"activity {message.kind} is unknown to this agent: upgrade it")
    end = message.end if message.HasField("end") else None
    return Activity(_ACTIVITIES_BACK[message.kind], message.begin, end)


def steps_record(message: telemetry_pb2.StepBatch) -> StepBatch:
    """Raises WireError where a column is neither empty nor as long as `sequence`."""
    rows = len(message.sequence)
    for name in ("end", "global_step", *PHASES, "pull"):
        if len(getattr(message, name)) not in ((rows,) if name == "end" else (0, rows)):
            raise WireError(f"steps of {message.subject}: {name} has {len(getattr(message, name))} rows, not {rows}")
    return StepBatch(
        generation=message.generation,
        attempt=message.attempt,
        reporter=message.reporter,
        subject=message.subject,
        sequence=array("Q", message.sequence),
        end=array("d", message.end),
        global_step=array("Q", message.global_step),
        **{name: array("f", getattr(message, name)) for name in PHASES},
        lost=message.lost,
        clamped=message.clamped,
        pull=array("f", message.pull),
    )


def coordinator_record(message: telemetry_pb2.Coordinator) -> Coordinator:
    return Coordinator(
        at=message.at,
        queued=message.queued if message.HasField("queued") else None,
        waited=message.waited,
        waiting_since=message.waiting_since if message.HasField("waiting_since") else None,
        workers=tuple(map(_functions_record, message.workers)),
    )


def _functions_record(message: telemetry_pb2.WorkerFunctions) -> WorkerFunctions:
    return WorkerFunctions(
        worker=message.worker,
        finished=message.finished,
        failed=message.failed,
        busy=message.busy,
        idle=message.idle,
        since=message.since if message.HasField("since") else None,
        traffic=tuple(ServerTraffic(each.server, each.pulled, each.pushed) for each in message.traffic),
    )


def _exit_message(record: Exit) -> telemetry_pb2.Exit:
    return telemetry_pb2.Exit(
        code=record.code, signal=record.signal, at=record.at, requested=record.requested, log=record.log
    )


def _exit_record(message: telemetry_pb2.Exit) -> Exit:
    return Exit(
        code=message.code if message.HasField("code") else None,
        signal=message.signal if message.HasField("signal") else None,
        at=message.at,
        requested=message.requested,
        log=tuple(message.log),
    )


def _probe_message(record: ProbeStatus) -> telemetry_pb2.ProbeStatus:
    return telemetry_pb2.ProbeStatus(
        state=_PROBE_STATES[record.state],
        message=record.message,
        strategy=record.strategy,
        replicas=record.replicas,
        local_replicas=record.local_replicas,
        ranks=record.ranks,
        reduced_bytes_per_step=record.reduced_bytes_per_step,
        examples_per_step=record.examples_per_step,
        tensorflow=record.tensorflow,
        keras=record.keras,
        warnings=record.warnings,
        collective=record.collective,
        checkpoint=record.checkpoint,
    )


def _collective_message(record: Collective) -> telemetry_pb2.Collective:
    return telemetry_pb2.Collective(entered=record.entered, left=record.left, entered_at=record.entered_at)


def _training_message(record: Training) -> telemetry_pb2.Training:
    return telemetry_pb2.Training(
        epoch=record.epoch,
        global_step=record.global_step,
        loss=record.loss,
        finite=record.finite,
        learning_rate=record.learning_rate,
    )


def _activity_message(record: Activity) -> telemetry_pb2.Activity:
    return telemetry_pb2.Activity(kind=_ACTIVITIES[record.kind], begin=record.begin, end=record.end)


def _host_message(record: HostSample) -> telemetry_pb2.HostSample:
    pressure, usage = record.pressure, record.task
    return telemetry_pb2.HostSample(
        cpu=record.cpu,
        cores=record.cores,
        load=record.load,
        memory_used=record.memory_used,
        memory_total=record.memory_total,
        swap_used=record.swap_used,
        pressure=None if pressure is None else _pressure_message(pressure),
        interfaces=[
            telemetry_pb2.Interface(name=each.name, received=each.received, sent=each.sent, speed=each.speed)
            for each in record.interfaces
        ],
        task=None if usage is None else _usage_message(usage),
        throttled=record.throttled,
    )


def _pressure_message(record: Pressure) -> telemetry_pb2.Pressure:
    return telemetry_pb2.Pressure(cpu=record.cpu, memory=record.memory, io=record.io)


def _usage_message(record: TaskUsage) -> telemetry_pb2.TaskUsage:
    return telemetry_pb2.TaskUsage(
        processes=record.processes,
        threads=record.threads,
        cpu=record.cpu,
        memory=record.memory,
        stopped=record.stopped,
    )


def _gpu_message(record: GpuSample) -> telemetry_pb2.GpuSample:
    return telemetry_pb2.GpuSample(
        index=record.index,
        uuid=record.uuid,
        name=record.name,
        utilisation=record.utilisation,
        memory_used=record.memory_used,
        memory_total=record.memory_total,
        power=record.power,
        power_limit=record.power_limit,
        temperature=record.temperature,
        clock=record.clock,
        clock_max=record.clock_max,
        clock_event_reasons=record.clock_event_reasons,
        ecc_errors=record.ecc_errors,
        xid=record.xid,
    )


def _steps_message(record: StepBatch) -> telemetry_pb2.StepBatch:
    return telemetry_pb2.StepBatch(
        generation=record.generation,
        attempt=record.attempt,
        reporter=record.reporter,
        subject=record.subject,
        sequence=record.sequence,
        global_step=record.global_step,
        end=record.end,
        update=record.update,
        host=record.host,
        input=record.input,
        compute=record.compute,
        reduce=record.reduce,
        lost=record.lost,
        clamped=record.clamped,
        pull=record.pull,
    )


def _coordinator_message(record: Coordinator) -> telemetry_pb2.Coordinator:
    return telemetry_pb2.Coordinator(
        at=record.at,
        queued=record.queued,
        waited=record.waited,
        waiting_since=record.waiting_since,
        workers=map(_functions_message, record.workers),
    )


def _functions_message(record: WorkerFunctions) -> telemetry_pb2.WorkerFunctions:
    return telemetry_pb2.WorkerFunctions(
        worker=record.worker,
        finished=record.finished,
        failed=record.failed,
        busy=record.busy,
        idle=record.idle,
        since=record.since,
        traffic=[
            telemetry_pb2.ServerTraffic(server=t.server, pulled=t.pulled, pushed=t.pushed) for t in record.traffic
        ],
    )
