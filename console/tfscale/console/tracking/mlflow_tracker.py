"""Run of MLflow: that of the script where its id is known, else one of its own."""

from __future__ import annotations

from mlflow import MlflowClient
from mlflow.entities import Metric
from tfscale.console.tracking.run_series import Moment

_AT_ONCE = 1_000
"""Metrics of one call: MLflow takes no more."""


def open_run(experiment: str, run: str, found: str) -> MlflowTracker:
    """Open the script's run by its id, or a new one in an experiment, by default `tfscale`."""
    client = MlflowClient()
    if found:
        client.get_run(found)
        return MlflowTracker(client, found, is_own=False)
    name = experiment or "tfscale"
    known = client.get_experiment_by_name(name)
    number = known.experiment_id if known is not None else client.create_experiment(name)
    return MlflowTracker(client, client.create_run(number, run_name=run).info.run_id, is_own=True)


class MlflowTracker:
    """Writer of one run's metrics."""

    def __init__(self, client: MlflowClient, run_id: str, *, is_own: bool) -> None:
        self._client, self._run_id, self._is_own = client, run_id, is_own
        self.where = f"run {run_id}"

    def write(self, moment: Moment) -> None:
        at = round(1000 * moment.at)
        metrics = [
            Metric(f"tfscale/{name}/{subject}", value, at, moment.step)
            for subject, values in moment.values.items()
            for name, value in values.items()
        ]
        for begin in range(0, len(metrics), _AT_ONCE):
            self._client.log_batch(self._run_id, metrics=metrics[begin : begin + _AT_ONCE])

    def close(self) -> None:
        if self._is_own:
            self._client.set_terminated(self._run_id)
