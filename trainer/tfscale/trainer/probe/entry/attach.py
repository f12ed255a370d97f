"""Entry into a module that concerns the probe, right after its import."""

from __future__ import annotations

import os
import sys

from tfscale.core.log_clues import UNFIT
from tfscale.trainer.compat import repairs
from tfscale.trainer.compat.listings import erratum, last_error
from tfscale.trainer.probe.entry.given_replicas import make_devices
from tfscale.trainer.probe.on_demand import profiling
from tfscale.trainer.probe.outside.outside_settings import OutsideSettings, steps_file
from tfscale.trainer.probe.probe import Probe
from tfscale.trainer.probe.process.agent_variables import agent_variable
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report.reporter import Reporter

_probe: Probe | None = None
_outside = OutsideSettings()
_ALONE = "TF_CONFIG is no longer in the environment of the training process: it trains outside of its cluster"


def attach(module: str) -> None:
    """Repair a module of TensorFlow or Keras that was just imported, and hook into it.

    Failed repairs are reported; a failed hook ends the measuring. Repairs come first, because they do not need the
    probe, and an error that keeps the probe from being made is raised.
    """
    try:
        if module == "tensorflow":
            make_devices(sys.modules[module])
        _outside.put(sys.modules[module])
        repairs.repair(sys.modules[module], on_fault=_report_fault)
        if module in ("keras", "tf_keras"):
            repairs.look_for_absent(module, on_fault=_report_fault)
    except Exception as error:
        _report_fault(f"{UNFIT}the repairs of {module} failed: {error!r}")
    made = probe()
    try:
        _hook(module, made)
    except Exception as error:
        # With some of its hooks alone the probe would measure wrong phases.
        made.fail(error)


def _report_fault(note: str) -> None:
    probe().report_fault(note)


def _hook(module: str, made: Probe) -> None:
    if module == "tensorflow":
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = last_error.show
        erratum.listeners.append(made.report_note)
        if agent_variable("TFSCALE_TF_CONFIG") and "TF_CONFIG" not in os.environ:
            made.report_note(_ALONE)
        made.install()
    else:
        made.install_keras(module)


def probe() -> Probe:
    """Return the probe of this process. Under an agent it reports to the agent."""
    global _probe
    if _probe is None:
        identity = Identity.from_environment() if agent_variable("TFSCALE_REPORT") else None
        _probe = Probe()
        if identity is not None:
            _probe.report_to(lambda: Reporter(identity.begun(), profiling.obey))
            if agent_variable("TFSCALE_STEPS"):
                _probe.report_to(steps_file)
    return _probe


def attached() -> Probe | None:
    """Return the probe of this process, None if neither an agent nor `measure` has asked for one."""
    return _probe
