"""Hosts that fail again and again."""

from __future__ import annotations

from tfscale.core.cluster.placement.host_failures import HostFailures
from tfscale.core.cluster.recovery_policy import RecoveryPolicy

POLICY = RecoveryPolicy({}, period=100.0, cordon_after=3)


def failing(*times: float, host: str = "b") -> HostFailures:
    failures = HostFailures()
    for at in times:
        failures = failures.after(host, at, POLICY)
    return failures


def test_the_third_failure_within_the_period_cordons_a_host() -> None:
    assert failing(0.0, 50.0).why_cordoned("b", POLICY) == ""
    assert failing(0.0, 50.0, 99.0).why_cordoned("b", POLICY) == "failed 3 times within 100 s"


def test_older_failures_do_not_count_nor_those_of_others() -> None:
    assert failing(0.0, 50.0, 100.0).why_cordoned("b", POLICY) == ""
    assert failing(0.0, 50.0, 99.0).why_cordoned("a", POLICY) == ""


def test_failures_that_a_wrong_clock_dated_do_not_count() -> None:
    assert failing(1e9, 1e9 + 1, 5.0).why_cordoned("b", POLICY) == ""


def test_a_host_that_is_uncordoned_begins_anew() -> None:
    assert failing(0.0, 1.0, 2.0).without("b").after("b", 3.0, POLICY).why_cordoned("b", POLICY) == ""


def test_failures_of_other_hosts_are_dropped_with_time_and_are_bounded() -> None:
    failures = failing(0.0).after("c", 200.0, POLICY)
    assert dict(failures.by_host) == {"c": (200.0,)}
    for number in range(2000):
        failures = failures.after(f"host-{number}", 200.0, POLICY)
    assert len(failures.by_host) == 1024
