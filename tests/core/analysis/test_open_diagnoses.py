"""Open diagnoses: they keep their begin, and end once."""

from dataclasses import replace

from tfscale.core.analysis.open_diagnoses import OpenDiagnoses
from tfscale.core.records import Diagnosis

SLOW = Diagnosis("straggler", "worker:1", 10.0, None, "warning", "slow")


def test_a_diagnosis_keeps_the_begin_that_it_was_opened_with_and_ends_once() -> None:
    memory = OpenDiagnoses()
    assert memory.update([SLOW], 20.0) == (SLOW,)
    later = replace(SLOW, begin=15.0, sentence="slower")
    assert memory.update([later], 21.0) == (replace(later, begin=10.0),)
    assert memory.update([], 22.0) == (replace(later, begin=10.0, end=22.0),)
    assert memory.update([], 23.0) == ()


def test_a_task_can_crash_again_and_the_most_severe_comes_first() -> None:
    memory = OpenDiagnoses()
    first, second = (Diagnosis("crash", "worker:0", begin, None, "critical", "died") for begin in (1.0, 9.0))
    memory.update([first], 2.0)
    assert memory.update([SLOW, second], 10.0) == (second, SLOW, replace(first, end=10.0))
