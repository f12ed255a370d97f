"""Activities beside steps: nested, in several threads, and too brief to be reported."""

import time
from contextlib import suppress

from tfscale.core.records.probe_status import Activity
from tfscale.trainer.probe.process.activities import CHECKPOINT, COMPILE, EVALUATION, Activities, Announcer


def test_an_activity_is_there_while_it_lasts_and_when_it_has_ended() -> None:
    activities = Activities()
    with activities.during(CHECKPOINT):
        (begun,) = activities.drain()
        assert begun.kind == "checkpoint" and begun.end is None
        assert activities.drain() == []
    (ended,) = activities.drain()
    assert (ended.kind, ended.begin) == (begun.kind, begun.begin)
    assert ended.end is not None and ended.begin <= ended.end <= time.time()


def test_an_activity_inside_one_of_its_kind_belongs_to_it() -> None:
    activities = Activities()
    with activities.during(COMPILE), activities.during(COMPILE), activities.during(CHECKPOINT):
        pass
    assert [activity.kind for activity in activities.drain()] == ["checkpoint", "compile"]


def test_one_that_fails_has_ended_too() -> None:
    activities = Activities()
    try:
        with activities.during(CHECKPOINT):
            raise OSError
    except OSError:
        pass
    (ended,) = activities.drain()
    assert ended.end is not None


def test_what_was_over_at_once_is_not_told() -> None:
    brief, long = Activity(COMPILE, 1.0, 1.01), Activity(COMPILE, 2.0, 2.5)
    begun = [Activity(COMPILE, 1.0), Activity(COMPILE, 2.0)]
    assert Announcer().to_report([*begun, brief, long], []) == [long]


def test_many_brief_ones_that_take_long_together_are_reported() -> None:
    brief = [Activity(COMPILE, float(second), second + 0.02) for second in range(3)]
    other = Activity(CHECKPOINT, 1.0, 1.02)
    assert Announcer().to_report([*brief, other], []) == brief


def test_what_was_told_to_begin_is_told_to_end() -> None:
    announcer = Announcer()
    assert announcer.to_report([Activity(COMPILE, 1.0)], []) == [Activity(COMPILE, 1.0)]
    assert announcer.to_report([Activity(COMPILE, 1.0, 1.01)], []) == [Activity(COMPILE, 1.0, 1.01)]


def test_what_a_hook_knows_is_not_inferred_as_well() -> None:
    announcer = Announcer()
    known = Activity(EVALUATION, 1.0, 3.0)
    inferred = [Activity(EVALUATION, 1.5, 2.9), Activity(EVALUATION, 4.0, 5.0)]
    assert announcer.to_report([known], inferred) == [known, inferred[1]]


def test_a_checkpoint_is_one_when_it_has_been_written() -> None:
    activities = Activities()
    with activities.during(CHECKPOINT):
        pass
    with suppress(OSError), activities.writing():
        raise OSError
    assert activities.checkpointed is None
    begin = time.time()
    with activities.writing():
        pass
    assert activities.checkpointed is not None and begin <= activities.checkpointed <= time.time()
    assert [activity.kind for activity in activities.drain()] == ["checkpoint"] * 3
