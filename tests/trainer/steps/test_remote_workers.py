"""Accounts that a chief keeps of its workers."""

import time
from collections import deque

import pytest
from tfscale.core.records.step_batch import ServerTraffic, WorkerFunctions
from tfscale.trainer.probe.rows.spans import Distribution, Kind, Site, Span
from tfscale.trainer.probe.steps.remote_workers import Traffic, WorkerAccount, Workers


@pytest.fixture
def workers() -> Workers:
    made = Workers()
    made.begin(2, Distribution("ParameterServerStrategy"))
    return made


def account(workers: Workers, index: int) -> WorkerAccount:
    found = workers.account(index)
    assert found is not None
    return found


def functions(workers: Workers, index: int) -> WorkerFunctions:
    coordinator = workers.coordinator()
    assert coordinator is not None
    return coordinator.workers[index]


def test_without_a_strategy_there_is_nobody() -> None:
    none = Workers()
    assert not none
    assert none.account(0) is None and none.coordinator() is None and none.drain() == []


def test_functions_are_counted_and_timed(workers: Workers) -> None:
    begin = time.monotonic()
    for _ in range(2):
        with account(workers, 1).executing(counted=True):
            assert functions(workers, 1).since is not None
            time.sleep(0.02)
    with account(workers, 1).executing(counted=False):
        pass
    told = functions(workers, 1)
    assert (told.worker, told.finished, told.failed, told.since) == ("worker:1", 2, 0, None)
    assert 0.04 <= told.busy <= time.monotonic() - begin
    assert functions(workers, 0).finished == 0


def test_a_failure_is_counted_and_passed_on(workers: Workers) -> None:
    with pytest.raises(OSError, match="gone"), account(workers, 0).executing(counted=True):
        raise OSError("gone")
    told = functions(workers, 0)
    assert (told.finished, told.failed, told.busy, told.since) == (0, 1, 0.0, None)


def test_idle_time_counts_while_it_lasts(workers: Workers) -> None:
    with account(workers, 0).idling():
        time.sleep(0.02)
        assert functions(workers, 0).idle >= 0.02
    ended = functions(workers, 0).idle
    time.sleep(0.01)
    assert functions(workers, 0).idle == ended


def test_a_wait_within_a_wait_is_one(workers: Workers) -> None:
    begin = time.monotonic()
    with workers.waiting(), workers.waiting():
        time.sleep(0.02)
        coordinator = workers.coordinator()
    assert coordinator is not None and coordinator.waiting_since is not None
    after, passed = workers.coordinator(), time.monotonic() - begin
    assert after is not None and after.waiting_since is None
    assert 0.02 <= after.waited <= passed


def test_bytes_add_up_by_server(workers: Workers) -> None:
    fixed, rows = Site(1, Kind.EXCHANGE), Site(2, Kind.TRAFFIC)
    workers.traffic = {1: Traffic({"ps:0": 100}, {"ps:1": 7}), 2: Traffic({"ps:0": 1}, {})}
    spans = [Span(fixed, 0.0, 0.1), Span(rows, 0.0, 0.0, 24.0), Span(fixed, 1.0, 1.1)]
    account(workers, 0).collected(spans, lost=3)
    (measured,) = workers.drain()
    assert (measured.worker, measured.steps, measured.lost) == ("worker:0", [], 3)
    assert functions(workers, 0).traffic == (ServerTraffic("ps:0", 224, 0), ServerTraffic("ps:1", 0, 14))
    assert functions(workers, 1).traffic == ()


def test_what_was_not_read_is_due_after_a_while_and_settles_when_it_was(workers: Workers) -> None:
    busy = account(workers, 0)
    assert not busy.is_due(0.0)
    with busy.executing(counted=True):
        pass
    assert busy.unread and busy.is_due(0.0)
    busy.collected([], 0)
    assert not busy.unread
    begin = time.monotonic()
    workers.settle(60.0)
    assert time.monotonic() - begin < 30.0


def test_a_worker_has_been_read_only_once_its_records_can_be_drained(workers: Workers) -> None:
    """Another thread drains them as soon as nothing is unread, at the end of the process for the last time."""
    busy, unread = account(workers, 0), []

    class Records(deque):  # type: ignore[type-arg]
        def append(self, records: object) -> None:
            unread.append(busy.unread)
            super().append(records)

    busy.fresh = Records()
    with busy.executing(counted=True):
        pass
    busy.collected([], 0)
    assert unread == [True] and not busy.unread
