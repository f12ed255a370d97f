"""Called when a module that concerns the probe has been imported."""

from __future__ import annotations

import os
import sys

from tfscale.trainer.compat import repairs
from tfscale.trainer.probe import profiling
from tfscale.trainer.probe.identity import Identity
from tfscale.trainer.probe.imports import REPAIRED
from tfscale.trainer.probe.probe import Probe
from tfscale.trainer.probe.reporter import Reporter

_probe: Probe | None = None


def attach(module: str) -> None:
    """Hook into what was just imported: TensorFlow, or a part of Keras."""
    repairs.repair(sys.modules[module])
    if module == "tensorflow":
        probe().install()
    elif module not in REPAIRED:
        probe().install_keras(sys.modules[module])


def probe() -> Probe:
    """The probe of this process, which tells its agent where there is one."""
    global _probe
    if _probe is None:
        identity = Identity.from_environment() if os.environ.get("TFSCALE_REPORT") else None
        _probe = Probe()
        if identity is not None:
            _probe.report_to(lambda: Reporter(identity, profiling.obey))
    return _probe
