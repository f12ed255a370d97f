"""The newest steps of all tasks, against a plain dictionary of them."""

from __future__ import annotations

from array import array
from random import Random

import fakes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tfscale.console.history.joined_steps import joined
from tfscale.console.history.recent_steps import RecentSteps
from tfscale.core.cluster.task import Task
from tfscale.core.records.step_batch import PHASES, StepBatch

TASKS = [fakes.worker(index) for index in range(4)]


def batch(task: Task, sequence: range, end: float, generation: int = 1, attempt: int = 1) -> StepBatch:
    """Return steps whose compute encodes the task, the step and the attempt."""
    count = len(sequence)
    compute = array("f", [step + task.index / 8 + generation * 1000 for step in sequence])
    phases = {phase: array("f", [0.5] * count) for phase in PHASES} | {"compute": compute}
    ends = array("d", [end] * count)
    return StepBatch(generation, attempt, str(task), str(task), array("Q", sequence), ends, array("Q"), **phases)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_steps_line_up_as_in_a_dictionary_of_them(random: Random) -> None:
    steps, known = RecentSteps(TASKS), dict[Task, dict[int, float]]()
    generation, done = 1, dict.fromkeys(TASKS, 0)
    for second in range(30):
        if random.random() < 0.1:
            generation, done, known = generation + 1, dict.fromkeys(TASKS, 0), {}
        for task in random.sample(TASKS, random.randrange(1, len(TASKS) + 1)):
            sequence = range(done[task], done[task] + random.randrange(1, 12))
            done[task] = sequence.stop
            if sequence.start and random.random() < 0.1:
                continue
            new = batch(task, sequence, fakes.NOW + second, generation)
            old = batch(task, range(3), fakes.NOW, generation - 1)
            assert steps.add(joined([new, old], [0.0, 0.0])) == ([True, False], not known)
            known.setdefault(task, {}).update(zip(sequence, new.compute, strict=True))
        if not known:
            continue
        newest = {task: max(rows) for task, rows in known.items()}
        assert steps.newest == max(newest.values())
        last = random.choice(list(newest.values()))
        assert steps.reporters(last) == sum(number >= last for number in newest.values())
        shown = steps.aligned(last, 5)
        wanted = range(max(last - 4, steps.oldest or 0), last + 1)
        assert list(shown.tasks) == [task for task in TASKS if known.get(task, {}).keys() & set(wanted)]
        assert set(shown.sequence.tolist()) == set(wanted) & {step for rows in known.values() for step in rows}
        for place, task in enumerate(shown.tasks):
            own = [known[task].get(step, np.nan) for step in shown.sequence.tolist()]
            assert np.array_equal(shown.phases[PHASES.index("compute"), :, place], own, equal_nan=True)


def test_a_task_that_fell_silent_does_not_hold_up_the_common_step() -> None:
    steps = RecentSteps(TASKS)
    assert steps.newest is steps.common is steps.oldest is None
    for second in range(6):
        for task in TASKS[: 4 if second < 2 else 3 if second < 5 else 2]:
            steps.add(joined([batch(task, range(10 * second, 10 * second + 10), fakes.NOW + second)], [0.0]))
    assert (steps.newest, steps.common, steps.oldest) == (59, 49, 0)


def test_ends_are_on_the_consoles_clock() -> None:
    steps = RecentSteps(TASKS)
    steps.add(joined([batch(TASKS[0], range(2), fakes.NOW - 100)], [100.0]))
    assert steps.aligned(1, 2).end.tolist() == [fakes.NOW, fakes.NOW]


def test_of_several_batches_those_before_a_new_attempt_and_of_other_subjects_do_not_count() -> None:
    steps = RecentSteps(TASKS[:2])
    came = [batch(task, range(3), fakes.NOW, generation) for generation in (1, 2) for task in TASKS[:3]]
    assert steps.add(joined(came, [0.0] * 6)) == ([False, False, False, True, True, False], True)
    assert steps.add(joined([batch(TASKS[0], range(3, 6), fakes.NOW, 2)], [0.0])) == ([True], False)
