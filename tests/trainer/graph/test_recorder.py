"""Spans that a recorder makes of the calls in a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tfscale.trainer.probe.rows.spans import Counter, Distribution, Kind

pytestmark = pytest.mark.tensorflow

ONE = Distribution("OneDeviceStrategy")


@pytest.fixture
def recorder() -> Any:
    from tfscale.trainer.probe.graph.recorder import Recorder

    return Recorder(on_failure=pytest.fail)


def train(recorder: Any, variable: Any) -> Any:
    """Record one step: a batch, its gradients, and their reduction."""
    import tensorflow as tf

    batch = recorder.input(lambda: tf.ones([4, 2]))

    def step() -> Any:
        gradients = recorder.gradient(lambda: [tf.reduce_mean(batch)])
        recorder.note_applied(Counter(7))
        reduced = recorder.reduction(lambda: tf.identity(gradients[0]), gradients, ONE)
        return variable.assign_add(reduced)

    return recorder.run(step, ONE, key="step")


def test_eager_calls_are_timed_by_the_clock(recorder: Any) -> None:
    import tensorflow as tf

    train(recorder, tf.Variable(0.0))
    _, spans, lost = recorder.drain()
    assert [span.site.kind for span in spans] == [Kind.INPUT, Kind.REDUCE, Kind.RUN]
    assert lost == 0 and spans[0].amount == 4.0
    assert all(span.begin <= span.end for span in spans) and spans[1].site.in_run
    run = spans[2].site
    assert run.trains and run.counter is not None and run.counter.base == 7 and run.distribution is ONE


def test_examples_of_a_batch_that_comes_as_an_optional_are_counted_when_it_is_taken_out(recorder: Any) -> None:
    import tensorflow as tf

    batches = iter(tf.data.Dataset.range(6).batch(4))
    for _ in range(2):
        optional = recorder.input(batches.get_next_as_optional)
        recorder.taken_out(optional.get_value, optional)
        recorder.taken_out(optional.get_value, optional)
        recorder.gradient(lambda: None)
    recorder.input(batches.get_next_as_optional)
    recorder.gradient(lambda: None)
    _, spans, _ = recorder.drain()
    assert [span.site.kind for span in spans] == [Kind.INPUT, Kind.GRADIENT] * 3
    assert [span.amount for span in spans[::2]] == [4.0, 2.0, 0.0]


def test_a_graph_writes_all_spans_of_a_step_in_one_row(recorder: Any, ring: Any) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    recorder.graphs.buffer = RowBuffer([], ring)
    variable = tf.Variable(0.0)

    @tf.function
    def step() -> Any:
        result = train(recorder, variable)
        recorder.graphs.write_stamps(tf.compat.v1.get_default_graph())
        return result

    for _ in range(3):
        step()
    rows, spans, _ = recorder.drain()
    assert len(rows) == 3 and spans == []
    table = recorder.graphs.table_of(rows)
    kinds = [recorder.sites.all[number].kind for number in table.site[:3]]
    assert sorted(kind.value for kind in kinds) == ["input", "reduce", "run"]
    assert np.all(table.begin <= table.end)


def test_an_update_under_a_condition_waits_for_gradients_of_the_graph_around_it(recorder: Any, ring: Any) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    recorder.graphs.buffer = RowBuffer([], ring)
    variable = tf.Variable(0.0)

    @tf.function
    def step() -> Any:
        gradients = [tf.reduce_mean(tf.ones([4, 2]))]

        def apply() -> Any:
            recorder.note_applied(Counter(7))
            return variable.assign_add(recorder.reduction(lambda: gradients, gradients, ONE)[0])

        def branch() -> tf.Tensor:
            updated = recorder.run(apply, ONE, key="apply", standalone=True)
            recorder.graphs.write_stamps(tf.compat.v1.get_default_graph())
            return tf.identity(updated)

        return tf.cond(variable < 1.5, branch, lambda: tf.constant(0.0))

    for _ in range(3):
        step()
    sites = [recorder.sites.all[number] for number in recorder.graphs.table_of(recorder.drain()[0]).site]
    assert [site.kind for site in sites] == 2 * [Kind.REDUCE, Kind.RUN]
    assert not any(site.overlaps_updates for site in sites)


def test_a_paused_recorder_records_nothing(recorder: Any) -> None:
    import tensorflow as tf

    with recorder.switch.paused():
        train(recorder, tf.Variable(0.0))
    assert recorder.drain()[1] == [] and not recorder.has_run


def test_a_failure_of_its_own_disables_it() -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.graph.recorder import Recorder

    failures: list[Exception] = []
    recorder = Recorder(on_failure=failures.append)
    with recorder.switch.own_work():
        raise RuntimeError("broken on purpose")
    train(recorder, tf.Variable(0.0))
    assert len(failures) == 1 and recorder.drain()[1] == []


def test_graphs_that_other_processes_may_run_have_no_stamps(recorder: Any) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.rows import ring, staging_area

    recorder.graphs.leaves_stamps_out = True
    step = tf.function(lambda variable: train(recorder, variable))
    traced = str(step.get_concrete_function(tf.Variable(0.0)).graph.as_graph_def())
    assert ring.OP not in traced and staging_area.OP not in traced


def test_a_graph_is_one_step_unless_its_optimizer_applies_twice_or_eager_steps_follow(recorder: Any) -> None:
    import tensorflow as tf

    variable = tf.Variable(0.0)

    def made(*optimizers: str) -> bool:
        def steps() -> None:
            for key in optimizers:
                recorder.gradient(lambda: [tf.reduce_mean(tf.ones([4, 2]))])
                recorder.run(lambda: variable.assign_add(1.0), ONE, key=key, standalone=True)

        tf.function(steps).get_concrete_function()
        return recorder.graphs.step_graph is not None

    assert [made("one"), made("one", "one"), made("one", "other")] == [True, False, True]
    train(recorder, variable)
    assert recorder.graphs.step_graph is None
