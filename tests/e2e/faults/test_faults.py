"""The quick faults of `scripts/faults`, done to real agents, shims and tasks: each ends as it is expected to."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from faults.catalogue import chosen, faults
from faults.judge import judge

pytestmark = pytest.mark.alone

QUICK = [fault for _, fault in faults() if fault.quick]


@pytest.mark.slow
def test_the_quick_faults_end_as_they_are_expected_to() -> None:
    wrong = {verdict.fault.name: (verdict.faults, verdict.seen) for verdict in judge(QUICK) if verdict.faults}
    assert wrong == {}


def test_every_fault_has_a_name_of_its_own() -> None:
    names = Counter(f"{kind}: {fault.name}" for kind, fault in faults())
    assert max(names.values()) == 1 and len(names) >= 80


def test_every_fault_has_a_result_that_is_as_expected() -> None:
    """`scripts/faults --rest --results` adds what is missing."""
    kept = {record["fault"]: record for record in json.loads(Path(__file__).with_name("results.json").read_text())}
    assert list(kept) == [f"{kind}: {fault.name}" for kind, fault in faults()]
    assert [name for name, record in kept.items() if record["faults"] or not record["at"]] == []


def test_faults_are_chosen_by_words_of_their_kind_and_name() -> None:
    assert {fault.name for _, fault in chosen(["signals", "kill", "child"])} == {"KILL to child"}
