"""Search for the cluster file of a command without `--cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.file.environment_cluster import names_cluster
from tfscale.core.settings.precedence import config_path

CLUSTER_FILE = "cluster.toml"


def cluster_file(environment: Mapping[str, str]) -> Path | None:
    """Return `cluster.toml` in the working folder, else in the configuration folder.

    None without such a file, or where TF_CONFIG has precedence.
    """
    if names_cluster(environment):
        return None
    places = (Path(CLUSTER_FILE), config_path(environment).with_name(CLUSTER_FILE))
    return next((path for path in places if path.is_file()), None)


def load_found(path: Path) -> ClusterSpec:
    """Return the cluster of a file that was found and not named. Raises ClusterError, whose message says so."""
    try:
        return load_cluster(path)
    except ClusterError as error:
        raise ClusterError(
            f"{error} (it was found there, as no --cluster is given: if it is for another program, give --cluster FILE "
            'with a file of your own, of which cluster = "alone" is the least)'
        ) from None


def no_cluster(environment: Mapping[str, str]) -> str:
    """Return the places where a cluster was looked for in vain, as a part of a message."""
    without = "TF_CONFIG names no cluster" if environment.get("TF_CONFIG") else "there is no TF_CONFIG"
    return f"{without}, and no {CLUSTER_FILE} in this folder or in {config_path(environment).parent}"
