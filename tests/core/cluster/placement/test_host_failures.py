"""Hosts that fail again and again."""

from __future__ import annotations

from tfscale.core.cluster.placement.host_failures import HostCount, HostFailures, parse_host_failures
from tfscale.core.cluster.recovery_policy import RecoveryPolicy

POLICY = RecoveryPolicy({}, period=100.0, cordon_after=3)


def failing(*times: float, host: str = "b") -> HostFailures:
    failures = HostFailures()
    for generation, at in enumerate(times, 1):
        failures = failures.after(host, at, generation, POLICY)
    return failures


def test_the_third_failure_within_the_period_cordons_a_host() -> None:
    assert failing(0.0, 50.0).why_cordoned("b", POLICY) == ""
    assert failing(0.0, 50.0, 99.0).why_cordoned("b", POLICY) == "failed 3 times within 100 s"


def test_older_failures_do_not_count_nor_those_of_others() -> None:
    assert failing(0.0, 50.0, 100.0).why_cordoned("b", POLICY) == ""
    assert failing(0.0, 50.0, 99.0).why_cordoned("a", POLICY) == ""


def test_a_host_that_is_uncordoned_begins_anew_also_for_an_agent_that_has_counted_before() -> None:
    counted = failing(0.0, 1.0, 2.0)
    forgiven = counted.forgiven("b", 4)
    assert forgiven.after("b", 3.0, 5, POLICY).why_cordoned("b", POLICY) == ""
    assert forgiven.with_other(counted) == forgiven and counted.with_other(forgiven) == forgiven


def test_of_two_counts_the_newer_one_holds_by_the_clock_of_who_reads_it() -> None:
    newer = failing(0.0, 50.0).after("c", 60.0, 9, POLICY)
    read = failing(1000.0).with_other(parse_host_failures(newer.aged(60.0), 1010.0))
    assert dict(read.by_host) == {"b": HostCount((950.0, 1000.0), 2), "c": HostCount((1010.0,), 9)}


def test_failures_of_other_hosts_are_dropped_with_time_and_are_bounded() -> None:
    failures = failing(0.0).after("c", 200.0, 2, POLICY)
    assert [count.times for count in failures.by_host.values()] == [(), (200.0,)]
    for number in range(2000):
        failures = failures.after(f"host-{number}", 200.0, 2, POLICY)
    assert len(failures.by_host) == 1024
