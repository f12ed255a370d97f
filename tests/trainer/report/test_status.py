"""Status that the probe reports of its program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tfscale.core.records.probe_status import ProbeState
from tfscale.trainer.probe.report.status import Status
from tfscale.trainer.probe.rows.spans import Distribution
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.usual_steps import UsualSteps

TWO = Distribution("MultiWorkerMirroredStrategy", replicas=2, local_replicas=1)


def step(examples: float, reduced_bytes: int = 1000) -> Step:
    return Step(0, 10.0, 0.1, 0.1, 0.1, 0.1, 0.1, bytes=reduced_bytes, examples=examples, distribution=TWO)


def test_steps_tell_what_one_step_reduces_and_how_many_examples_all_workers_have() -> None:
    status = Status().after([step(32.0), step(7.0)])
    assert status.record.state is ProbeState.MEASURING
    assert (status.reduced_bytes_per_step, status.examples_per_step) == (1000, 64)
    assert status.record.replicas == 2


def test_what_makes_a_step_other_than_a_plain_one_is_reported() -> None:
    plain = Status().after([step(32.0)]).record
    assert (plain.gathered_bytes_per_step, plain.micro_batches, plain.local_steps) == (None, None, None)
    other = step(32.0)._replace(gathered=400, dense_bytes=9000, wire_type="bfloat16", micro_batches=2, local_steps=8)
    record = Status().after([other]).record
    assert (record.gathered_bytes_per_step, record.dense_bytes_per_step, record.wire_type) == (400, 9000, "bfloat16")
    assert (record.micro_batches, record.local_steps) == (2, 8)


def test_without_steps_nothing_changes() -> None:
    status = Status(distribution=TWO)
    assert status.after([]) is status
    assert status.record.state is ProbeState.WAITING


def test_an_unknown_number_of_examples_keeps_the_one_before() -> None:
    assert Status(distribution=TWO, examples_per_step=64).with_step(0, 0.0).examples_per_step == 64


@pytest.mark.parametrize("usual", [False, True])
def test_batches_without_examples_are_reported_from_their_first_step_on(usual: bool) -> None:
    def batch(*examples: float, begin: float) -> Sequence[Step]:
        ends = begin + np.arange(len(examples))
        if usual:
            return UsualSteps(0, ends, np.full((5, len(ends)), 0.1), np.zeros(len(ends)), np.array(examples), None, TWO)
        return [step(each)._replace(end=end) for each, end in zip(examples, ends.tolist(), strict=True)]

    unknown = Status().after(batch(0.0, 0.0, begin=10.0))
    assert unknown.record.empty_since is None, "examples were never seen: nothing is known of them"
    known = Status().after(batch(16.0, 16.0, begin=10.0))
    empty = known.after(batch(16.0, 0.0, 0.0, begin=20.0))
    assert (known.record.empty_since, empty.record.empty_since) == (None, 21.0)
    assert empty.after(batch(0.0, begin=30.0)).record.empty_since == 21.0
    assert empty.after(batch(0.0, 16.0, begin=30.0)).record.empty_since is None
    assert empty.examples_per_step == 32


def test_a_step_that_read_no_batch_is_not_empty() -> None:
    known = Status().after([step(16.0)])
    assert known.after([step(0.0)._replace(input=0.0)]).empty_since is None


def test_a_probe_that_gave_up_has_its_reason_and_xla_its_warning() -> None:
    record = Status(disabled="no more", xla=True, faults=("does not fit: input not measured",)).record
    assert (record.state, record.message) == (ProbeState.DISABLED, "no more")
    assert "XLA" in record.warnings[0] and record.warnings[1] == "does not fit: input not measured"


def test_a_program_whose_updates_are_not_seen_is_not_measured_until_a_step_is() -> None:
    record = Status(by_hand=True).record
    assert record.state is ProbeState.DISABLED and "or in a session, are not seen" in record.message
    assert Status(by_hand=True).after([step(32.0)]).record.message == ""
