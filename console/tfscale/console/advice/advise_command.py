"""`tfscale-console advise`: what would help a run, from its recording, from its agents, or before it has begun."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tfscale.console.advice.advice import Advice, NewestAdvice, as_json, as_text
from tfscale.console.advice.first_rules import Facts, facts_of, first_advice, first_lines
from tfscale.console.doctor.examination_round import ExaminationRound
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import states
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.export.snapshot_once import SnapshotOnce
from tfscale.console.export.whole_run import hear
from tfscale.console.recording.recording_folder import open_recording
from tfscale.console.sources.recorded import RecordedSource
from tfscale.console.sources.source_factory import ClusterConnection
from tfscale.core.errors import UsageError
from tfscale.core.preflight.checkup import Checkup
from tfscale.core.settings.exit_status import ExitStatus

Connect = Callable[[], ClusterConnection]
_NO_GAIN = (
    "no remedy has a gain that a model predicts, as most need an all-reduce; tfscale-console report of a recording, "
    "and --once --explain of a live run, have what was found and what would help"
)


def run_advise(recording: Path | None, program: Sequence[str], is_json: bool, connect: Connect) -> int:
    """Print the advice, and return the exit status. Raises TfscaleError.

    Args:
        recording: file or folder of a run; None: that which `connect` leads to.
        program: command of the script, for a cluster that does not train yet.
        is_json: whether to print JSON.
        connect: connects to the cluster.
    """
    if recording is not None:
        if program:
            raise UsageError(f"advise: {recording} has its program's command: leave out what follows --")
        return _told(_of_recording(recording), is_json)
    connection = connect()
    advice, checkup = connection.run(partial(_of_agents, connection))
    if advice is None and connection.channels is not None:
        return _first(facts_of(connection.source.spec, checkup), program, is_json)
    return _told(advice, is_json)


def _of_recording(path: Path) -> Advice | None:
    """Return the newest moment of a recording at which a gain was predicted. Raises UsageError."""
    recording = open_recording(path)
    engine = Engine(RecordedSource(recording.spec, recording.events(), recording.begin), states(recording.spec))
    newest = NewestAdvice()
    hear(engine, StopCondition((), None), newest)
    return newest.advice


async def _of_agents(connection: ClusterConnection) -> tuple[Advice | None, Checkup | None]:
    """Return the advice of the newest moment that the agents know of, also of a run that has ended.

    Before a first step, return what they find on their hosts; None where none answers. Raises UsageError where steps
    are measured, and no gain is predicted.
    """
    engine = Engine(connection.source, states(connection.source.spec, connection.baselines))
    once = SnapshotOnce(engine)
    newest = NewestAdvice(once)
    await engine.run(newest)
    if newest.advice is not None or connection.channels is None or not once.frames:
        return newest.advice, None
    if (snapshot := once.snapshot) is not None and any(view.summary for view in snapshot.tasks):
        raise UsageError(f"advise: {snapshot.moment}{snapshot.findings.headline}; {_NO_GAIN}")
    return None, await ExaminationRound(connection.channels, random.Random()).checkup(has_bandwidth=False)


def _first(facts: Facts, program: Sequence[str], is_json: bool) -> int:
    """Print the rules before a first step."""
    if is_json:
        rules = [{"what": sentence, "command": command} for sentence, command in first_advice(facts, program)]
        print(json.dumps({"type": "first_advice", "facts": asdict(facts), "would_help": rules}))
    else:
        print("\n".join(first_lines(facts, program)))
    return ExitStatus.NOT_YET


def _told(advice: Advice | None, is_json: bool) -> int:
    """Print the advice. Raises UsageError where there is none."""
    if advice is None:
        raise UsageError(f"advise: {_NO_GAIN}")
    print(json.dumps(as_json(advice), ensure_ascii=False) if is_json else as_text(advice), end="\n" if is_json else "")
    return ExitStatus.WELL
