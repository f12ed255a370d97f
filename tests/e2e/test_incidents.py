"""The quick incidents of `scripts/incidents`, in real clusters on hosts of their own: each is told as it is."""

from __future__ import annotations

import net_hosts
import pytest
from incidents.catalogue import incidents
from incidents.incident import Incident
from incidents.runner import run

QUICK = [incident for _, incident in incidents() if incident.quick]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
@pytest.mark.parametrize("incident", QUICK, ids=lambda incident: incident.name)
def test_an_incident_is_told_as_it_is(incident: Incident) -> None:
    (verdict,) = run([incident])
    assert verdict.faults == [], "\n".join(verdict.series)


def test_every_incident_has_a_name_of_its_own() -> None:
    names = [incident.name for _, incident in incidents()]
    assert len(set(names)) == len(names)
