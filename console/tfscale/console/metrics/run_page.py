"""Page for Prometheus of one or several runs that a console watches."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric
from tfscale.console.metrics.run_metrics import RunMetrics
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.metrics.metric_table import Families
from tfscale.core.metrics.page_address import at
from tfscale.core.metrics.page_server import PageServer
from tfscale.core.version import installed_version


class RunPage:
    """Page of the runs that `runs` returns at the time of a scrape."""

    def __init__(self, runs: Callable[[], Iterable[RunMetrics]]) -> None:
        self._runs = runs

    def collect(self) -> Iterable[Metric]:
        families = Families()
        families.add("tfscale_build_info", "tfscale-console", installed_version() or "")
        runs = [run for run in self._runs() if run.run]
        shared = Counter(run.run for run in runs)
        for run in runs:
            # Prometheus refuses two series with the same labels: runs of one name have that of their cluster, too.
            run.add_to(families, run.run if shared[run.run] == 1 else f"{run.run}-{run.cluster}")
        return families.metrics()

    def trouble(self) -> str:
        """Return an empty text: a console that is behind is alive, and `waits` says so."""
        return ""

    def waits(self) -> str:
        runs = list(self._runs())
        behind = sum(not run.is_present for run in runs)
        return f"{behind} of {len(runs)} runs have no snapshot of now" if behind else ""


@contextlib.contextmanager
def served_runs(
    address: Address | None, runs: Callable[[], Iterable[RunMetrics]], spec: ClusterSpec, *, insecure: bool
) -> Iterator[None]:
    """Serve the page of the runs until the block ends; None serves none. Raises UsageError.

    `spec` has the certificates for an address that is not loopback.
    """
    if address is None:
        yield
        return
    with PageServer(at(address, "127.0.0.1"), RunPage(runs), spec, insecure=insecure).serving():
        yield
