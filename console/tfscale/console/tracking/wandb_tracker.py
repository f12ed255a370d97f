"""Run of Weights & Biases: that of the script where its id is known, else one of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import wandb
from tfscale.console.tracking.run_series import Moment

_STEP = "tfscale/global_step"


def open_run(project: str, run: str, found: str) -> WandbTracker:
    """Open the script's run, `ENTITY/PROJECT/ID` as far as known, or a new one in a project, by default `tfscale`."""
    entity, known, identity = found.split("/") if found else ("", "", "")
    # What W&B measures by itself would be of this machine, and its console is not the training's.
    own: dict[str, Any] = {"silent": True, "x_disable_stats": True, "console": "off", "x_label": "tfscale"}
    if identity and wandb.setup().settings.mode in (None, "online"):
        # The script's process writes to the run, too, and says when it is finished.
        own |= {"mode": "shared", "x_primary": False, "x_update_finish_state": False}
    opened = wandb.init(
        project=known or project or "tfscale",
        entity=entity or None,
        id=identity or None,
        name=None if identity else run,
        resume="allow" if identity else None,
        settings=wandb.Settings(**own),
    )
    opened.define_metric(_STEP)
    opened.define_metric("tfscale.*", step_metric=_STEP)
    return WandbTracker(opened)


class WandbTracker:
    """Writer of one run's history, whose axis is the training's step and not the number of the entry."""

    def __init__(self, run: Any) -> None:
        self._run = run
        # Offline there is no page, but a folder that `wandb sync` sends.
        self.where = str(Path(run.dir).parent) if run.offline else run.url

    def write(self, moment: Moment) -> None:
        numbers = {
            f"tfscale.{name.partition('/')[0]}/{name.partition('/')[2]}/{subject}": value
            for subject, values in moment.values.items()
            for name, value in values.items()
        }
        self._run.log({_STEP: moment.step, "_timestamp": moment.at, **numbers})

    def close(self) -> None:
        self._run.finish()
