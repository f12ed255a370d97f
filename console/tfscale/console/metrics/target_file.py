"""`tfscale-console targets`: the pages of a cluster's agents as a file that Prometheus reads (file_sd_configs)."""

from __future__ import annotations

import json
import sys

from tfscale.console.settings.config import Settings
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.placement import seats_of
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import write_output
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.wire.json_records import Json


def write_targets(settings: Settings, spec: ClusterSpec) -> int:
    """Write the file, and return the exit status. Raises UsageError where it cannot be written."""
    text = json.dumps(targets(spec, settings.page_port, insecure=settings.insecure), indent=2) + "\n"
    if settings.out is None:
        sys.stdout.write(text)
    else:
        try:
            write_output(settings.out, text)  # Prometheus reads it at each change
        except OSError as error:
            raise UsageError(f"--out {settings.out}: {error.strerror}") from None
    return ExitStatus.WELL


def targets(spec: ClusterSpec, port: int, *, insecure: bool) -> list[Json]:
    """Return the groups of targets: one target a host, since the agents of a host's process share a page."""
    hosts = dict.fromkeys(Address(seat.host, port) for seat in seats_of(spec))
    groups: dict[str, list[str]] = {}
    for host in hosts:
        is_plain = insecure or spec.tls is None or host.is_loopback
        groups.setdefault("http" if is_plain else "https", []).append(str(host))
    return [{"targets": names, "labels": {"run": spec.name, "__scheme__": scheme}} for scheme, names in groups.items()]
