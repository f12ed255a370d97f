"""The quick incidents of `scripts/incidents`, in one real cluster on hosts of its own: each is told as it is."""

from __future__ import annotations

import net_hosts
import pytest

from incidents.catalogue import incidents
from incidents.runner import run

pytestmark = pytest.mark.alone

QUICK = [incident for _, incident in incidents() if incident.quick]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_the_quick_incidents_are_told_as_they_are() -> None:
    wrong = {verdict.incident.name: (verdict.faults, verdict.series) for verdict in run(QUICK) if verdict.faults}
    assert wrong == {}


def test_every_incident_has_a_name_of_its_own() -> None:
    names = [incident.name for _, incident in incidents()]
    assert len(set(names)) == len(names)
