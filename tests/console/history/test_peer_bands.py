"""Bands of a task's peers: their percentiles, their seconds one after the other, and those of many peers."""

from __future__ import annotations

import warnings

import fakes
import numpy as np
import pytest
from simulated_runs import simulated
from tfscale.console.engine.events import FrameArrived
from tfscale.console.history import peer_bands
from tfscale.console.history.history import History
from tfscale.console.history.peer_bands import HIGH, LOW, MIDDLE, PeerBands, held, percentiles
from tfscale.console.sources.simulation.simulated import simulated_spec


def now(seconds: float) -> float:
    return fakes.NOW + seconds


def of_simulation(workers: int, seconds: int, *faults: str) -> History:
    history = History(simulated_spec(workers).tasks)
    for event in simulated(seconds, workers, *faults):
        if isinstance(event, FrameArrived):
            history.fold(event.at, event.task, event.frame)
    history.close_second()
    return history


def test_percentiles_are_those_of_numpy_and_leave_out_the_unknown() -> None:
    values = np.random.default_rng(0).random((3, 11, 7), dtype=np.float32)
    values[0, :5], values[1, :, 2], values[2, 3:, 4] = np.nan, np.nan, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = np.nanpercentile(values, [10, 50, 90], axis=1).transpose(1, 0, 2)
    assert percentiles(values) == pytest.approx(expected, nan_ok=True)


def test_second_by_second_a_band_is_what_it_is_at_once_and_a_straggler_is_outside() -> None:
    history = of_simulation(8, 30, "worker:3=1.4x@10s")
    peers = [task for task in history.tasks if task != fakes.worker(3)]
    slowly, at_once = PeerBands(history, peers), PeerBands(history, peers).read(now(30), 40)
    for second in range(31):
        bands = slowly.read(now(second), 40)
    assert set(bands) == set(at_once) >= {"compute", "step_time", "gpu", "loss"}
    for name, band in bands.items():
        assert band == pytest.approx(at_once[name], nan_ok=True), name
    own = history.seconds(fakes.worker(3), now(30), 15).parts["compute"]
    low, middle, high = bands["compute"][[LOW, MIDDLE, HIGH], -15:]
    assert (low <= middle).all() and (middle <= high).all() and (own[:-1] > 1.2 * high[:-1]).all()
    # A replay that goes back within the same history begins anew.
    assert np.isnan(slowly.read(now(3), 40)["compute"][:, :-3]).all()


def test_the_band_of_many_peers_is_whole_after_some_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    history = of_simulation(8, 30)
    whole = PeerBands(history, history.tasks).read(now(30), 30)
    monkeypatch.setattr(peer_bands, "_AT_ONCE", 8 * 20 * 7)
    bands = PeerBands(history, history.tasks)
    calls = 0
    while not calls or not bands.is_whole(30):
        known = bands.read(now(30), 30)["compute"]
        calls += 1
        assert not np.isnan(known[:, -min(7 * calls, 29) :]).any(), "the newest come first"
    assert calls == 5 and known == pytest.approx(whole["compute"], nan_ok=True)


def test_a_step_of_five_seconds_is_drawn_as_long_as_it_was_under_way() -> None:
    step_time, compute = np.full((2, 13), np.nan, np.float32)
    step_time[[5, 10]], compute[[5, 10]] = 5.0, 4.9
    drawn = held(compute, step_time)
    assert np.isnan(drawn).tolist() == [True] + [False] * 10 + [True] * 2
    assert held(np.stack([compute] * 3), step_time)[1] == pytest.approx(drawn, nan_ok=True)
    of_milliseconds = held(np.array([np.nan, 1.0, np.nan], np.float32), np.array([np.nan, 0.002, np.nan], np.float32))
    assert np.isnan(of_milliseconds).tolist() == [True, False, True]
