"""Runs of incidents: those with the same cluster follow each other in it, as long as it recovers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from incidents.cluster import AGAIN, PATIENCE, Cluster, running
from incidents.incident import Incident
from incidents.judge import Span, Told, Verdict, verdict

LISTENING = 3.0
"""Seconds of listening after the last moment."""


def run(incidents: Sequence[Incident]) -> Iterator[Verdict]:
    """Run incidents, and yield the verdict of each once its cluster has ended."""
    for waiting in _by_setup(incidents):
        while waiting:
            done, ran = _run_in_one(waiting)
            yield from ran
            waiting = waiting[done:]


def _by_setup(incidents: Sequence[Incident]) -> list[list[Incident]]:
    """Return the incidents of each setup together, those first after which the cluster is as it was."""
    groups: list[list[Incident]] = []
    for incident in incidents:
        same = next((group for group in groups if group[0].setup == incident.setup), None)
        if same is None:
            groups.append(same := [])
        same.append(incident)
    return [sorted(group, key=lambda incident: not incident.recovers) for group in groups]


def _run_in_one(incidents: Sequence[Incident]) -> tuple[int, list[Verdict]]:
    """Run as many incidents as one cluster outlives; return their number and their verdicts."""
    with tempfile.TemporaryDirectory(prefix="tfscale-incidents-") as name:
        folder, spans = Path(name), []
        with running(folder, incidents[0].setup) as cluster:
            for incident in incidents:
                if incident.setup.starts and not cluster.trains(AGAIN if spans else PATIENCE):
                    break
                spans.append(_happen(incident, cluster))
                if not incident.recovers:
                    break
        told = Told(folder)
        if not spans:
            last = told.live[-1]["sentence"] if told.live else "nothing"
            return 1, [Verdict(incidents[0], [f"its cluster never trained: {last!r}"])]
        return len(spans), [verdict(incident, span, told) for incident, span in zip(incidents, spans, strict=False)]


def _happen(incident: Incident, cluster: Cluster) -> Span:
    begin = time.time() if incident.setup.starts else cluster.began
    incident.begin(cluster)
    _wait(begin + incident.lasts)
    end = time.time()
    if incident.end is not None:
        incident.end(cluster)
    until = end + max(incident.afterwards, default=0.0) + LISTENING
    _wait(until)
    return Span(begin, end, until)


def _wait(until: float) -> None:
    time.sleep(max(0.0, until - time.time()))
