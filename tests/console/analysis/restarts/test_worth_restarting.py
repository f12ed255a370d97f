"""Stragglers that are worth a restart, and those that are left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tfscale.console.analysis.restarts import worth_restarting
from tfscale.console.analysis.restarts.worth_restarting import (
    ASSUMED,
    by_policy,
    downtime_of,
    lone_straggler,
    pays_back_after,
    why_not_mended,
    why_not_paid_back,
)
from tfscale.core.cluster.recovery_policy import OnStraggler
from tfscale.core.records.diagnosis import Diagnosis, Evidence

EVIDENCE: Evidence = {
    "ratio": 1.5, "phase": "compute", "phase_ratio": 1.7, "slowdown": 1.5, "cause": "unknown", "step_before": 0.1,
}  # fmt: skip
SLOW = Diagnosis("straggler", "worker:3", 100.0, None, "serious", "worker:3 has been slow", EVIDENCE)
RESTARTED: Evidence = {
    "gained": 0.02,
    "expected": 0.4,
    "lost_seconds": 41.0,
    "repeated": 100.0,
    "rate": 10.0,
    "tasks": "worker:0, worker:3",
    "restarted_for": "worker:3",
}
RESTART = Diagnosis("restart", "cluster", 100.0, 141.0, "info", "restart of 2 workers", RESTARTED)


def straggler(**changes: object) -> Diagnosis:
    evidence = {**EVIDENCE, **changes}
    return replace(SLOW, evidence={name: value for name, value in evidence.items() if value != ""})


def other(kind: str, subject: str = "worker:1", severity: str = "warning") -> Diagnosis:
    return Diagnosis(kind, subject, 90.0, None, severity, kind)


def test_one_worker_that_is_surely_slow_is_found() -> None:
    calm = other("saturation", "cluster", "info")
    assert lone_straggler([SLOW, calm, other("pauses"), replace(other("crash"), end=95.0)]) is SLOW


@pytest.mark.parametrize(
    "found",
    [
        [],
        [replace(SLOW, severity="warning")],
        [replace(SLOW, end=120.0)],
        [replace(SLOW, subject="worker:3/replica:0")],
        [straggler(suspected="two kinds of hardware")],
        [SLOW, replace(SLOW, subject="worker:1")],
        [SLOW, other("saturation", "worker:3")],
        *([SLOW, other(kind)] for kind in ("slow_link", "cut_off", "crash", "hang", "not_finite", "unused_gpus")),
    ],
)
def test_who_is_not_surely_slow_or_not_alone_in_trouble_is_left(found: list[Diagnosis]) -> None:
    assert lone_straggler(found) is None


@pytest.mark.parametrize(
    ("changes", "by_restart", "by_replace"),
    [
        ({}, "", ""),
        ({"cause": "host", "phase": "host"}, "", ""),
        ({"cause": "device"}, "", ""),
        ({"step_before": ""}, "it was never seen to be as fast as the others, and may be so again", ""),
        ({"cause": "device", "xid": 79.0}, "its GPU itself is slow, which a restart does not mend", ""),
        ({"cause": "device", "clock_to_peers": 0.6}, "its GPU itself is slow, which a restart does not mend", ""),
        ({"cause": "device", "clock_to_peers": 0.98}, "", ""),
        ({"cause": "thermal"}, "overheated, which a restart does not mend", ""),
        ({"cause": "host", "also": "memory"}, "short of memory, which a restart does not mend", ""),
        (
            {"cause": "input", "phase": "input"},
            "waiting for its data, which a restart does not mend",
            "waiting for its data, which another host does not mend",
        ),
        (
            {"cause": "uneven"},
            "with more work than the others, which a restart does not mend",
            "with more work than the others, which another host does not mend",
        ),
        (
            {"phase": "input"},
            "waiting for its data, which a restart does not mend",
            "waiting for its data, which another host does not mend",
        ),
    ],
)
def test_a_policy_mends_some_causes_only(changes: Evidence, by_restart: str, by_replace: str) -> None:
    assert why_not_mended(straggler(**changes), OnStraggler.RESTART) == by_restart
    assert why_not_mended(straggler(**changes), OnStraggler.REPLACE) == by_replace


def test_a_restart_pays_with_a_fresh_checkpoint_and_not_with_an_old_one() -> None:
    # 60 s of training are repeated in 40 s, at the rate without the straggler.
    assert pays_back_after(SLOW, 41.0, 60.0) == pytest.approx((41.0 + 40.0) / 0.5)
    assert pays_back_after(SLOW, None, 0.0) == pytest.approx(ASSUMED / 0.5)
    assert why_not_paid_back(pays_back_after(SLOW, 41.0, 60.0)) == ""
    hour_old = pays_back_after(SLOW, 41.0, 3600.0)
    assert why_not_paid_back(hour_old) == "a restart now would be paid back after 1 h 21 m only"
    assert why_not_paid_back(pays_back_after(straggler(slowdown=1.0), 41.0, 0.0)).startswith("a restart now gains noth")


def test_the_reason_has_the_loss_the_gain_and_the_steps() -> None:
    told = "on_straggler: worker:3 1.7x slower in compute, the cluster loses 33%; expected gain 50%"
    assert worth_restarting.reason(SLOW, None) == told
    assert worth_restarting.reason(SLOW, 1234.4) == f"{told}, some 1,234 steps repeated"


def test_a_measured_restart_by_the_policy_is_known_by_the_worker_that_it_was_for() -> None:
    by_hand = {name: value for name, value in RESTARTED.items() if name != "restarted_for"}
    assert by_policy(replace(RESTART, evidence={**by_hand, "reason": "on_straggler: worker:3 was slow"})) is None
    assert by_policy(replace(RESTART, kind="crash")) is None
    vain = by_policy(RESTART)
    assert vain is not None and not vain.was_worth_it
    assert vain.words == "restart of worker:3 gained 2% (40% expected): not tried again"


@pytest.mark.parametrize(
    ("gained", "is_worth_it", "words"),
    [
        (0.2, True, ""),
        (0.19, False, "restart of worker:3 gained 19% (40% expected): not tried again"),
        (-0.1, False, "restart of worker:3 gained nothing (40% expected): not tried again"),
        (None, False, ""),
    ],
)
def test_half_of_what_was_expected_is_enough(gained: float | None, is_worth_it: bool, words: str) -> None:
    found = by_policy(replace(RESTART, evidence={**RESTARTED, "gained": gained}))
    assert found is not None and (found.was_worth_it, found.words) == (is_worth_it, words)


def test_the_time_of_a_restart_is_told_from_that_of_repeated_steps() -> None:
    assert downtime_of(RESTART, 1) == pytest.approx(31.0)
    assert downtime_of(RESTART, 4) == pytest.approx(38.5)
    assert downtime_of(replace(RESTART, evidence={"rate": 10.0}), 1) is None
