"""The cluster's figures, the bars and the trends: they show the measured numbers."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.panes.cluster_metrics import figures_of, goodput, logs_of, loss
from tfscale.core.records.training import LoggedNumber, Training

LOGS = (LoggedNumber("accuracy", 0.75), LoggedNumber("val_loss", None, 1))


def test_efficiency_is_own_work_over_the_step() -> None:
    cluster = fakes.spec(3)
    healthy, slowed = fakes.healthy_findings(cluster), fakes.straggler_findings(cluster)
    assert healthy.efficiency == pytest.approx(0.053 / 0.065)
    assert slowed.efficiency == pytest.approx(0.053 / 0.125)
    assert Findings().efficiency is None
    alone = replace(healthy, subjects={"worker:0": healthy.subjects["worker:0"]})
    assert alone.efficiency is None


def test_goodput_is_the_productive_share_of_all_time() -> None:
    assert goodput(Findings(spent={"productive": 30.0, "start": 6.0, "stragglers": 4.0})) == 0.75
    assert goodput(Findings()) is None
    assert goodput(Findings(spent={"productive": 0.0, "start": 30.0})) is None


def test_goodput_is_told_once_more_than_the_start_decides_it() -> None:
    assert goodput(Findings(spent={"productive": 20.0, "stragglers": 9.0})) is None
    assert goodput(Findings(spent={"productive": 40.0, "start": 20.0, "compile": 25.0})) is None
    assert goodput(Findings(spent={"productive": 45.0, "start": 20.0, "compile": 25.0})) == 0.5
    assert goodput(Findings(spent={"productive": 60.0, "start": 540.0})) == 0.1


def test_the_loss_is_of_whoever_tells_one_and_nan_is_said() -> None:
    cluster = fakes.spec(2)
    silent, told = (fakes.task_view(cluster, fakes.worker(index)) for index in range(2))
    assert told.frame is not None
    told = replace(told, frame=replace(told.frame, training=Training(loss=0.41234)))
    snapshot = Snapshot(fakes.NOW, "run", None, 1, (silent, told), fakes.healthy_findings(cluster))
    assert loss(snapshot) == "0.4123"
    assert [figure.name for figure in figures_of(snapshot)][:2] == ["steps/s", "examples/s"]
    logging = replace(told, frame=replace(told.frame, training=Training(logs=LOGS)))
    figures = logs_of(replace(snapshot, tasks=(silent, logging)))
    assert [(figure.name, figure.value) for figure in figures] == [("accuracy", "0.75"), ("val_loss", "NaN")]
    lost = replace(told, frame=replace(told.frame, training=Training(finite=False)))
    assert loss(replace(snapshot, tasks=(silent, lost))) == "NaN"


def test_what_is_left_is_that_of_the_task_that_will_be_done_last_while_it_trains() -> None:
    cluster = fakes.spec(2)
    views = [fakes.task_view(cluster, fakes.worker(index)) for index in range(2)]
    trainings = [Training(epoch=1, epochs=4, epoch_step=50, epoch_steps=100, time_left=left) for left in (120.0, 130.0)]
    told = [
        replace(each, frame=replace(each.frame, training=training))
        for each, training in zip(views, trainings, strict=True)
    ]
    snapshot = Snapshot(fakes.NOW, "run", None, 1, tuple(told), fakes.healthy_findings(cluster))
    figures = {figure.name: figure.value for figure in figures_of(snapshot)}
    assert (figures["done"], figures["left"]) == ("37%", "2 m 10 s")
    standing = replace(snapshot, findings=Findings(condition=ClusterCondition(Condition.STILL)))
    assert standing.progress is not None and standing.progress.time_left is None
    silent = replace(snapshot, tasks=tuple(views))
    assert not {"done", "left"} & {figure.name for figure in figures_of(silent)}, "no length is known"
