"""Places where a run writes, tried on the writing host before anything is trained."""

from __future__ import annotations

from tfscale.core.errors import UsageError
from tfscale.trainer.launch.plan import Plan
from tfscale.trainer.saving.model_files import check_places
from tfscale.trainer.saving.whole_files import check_folder, check_writable


def check_outputs(plan: Plan) -> None:
    """Refuse places where this host cannot write. Raises UsageError."""
    check_places(plan.save)
    tried = {
        "json": (plan.json, check_writable),
        "checkpoints": (plan.checkpoints, check_folder),
        "tensorboard": (plan.tensorboard, check_folder),
    }
    for name, (path, check) in tried.items():
        if path is None:
            continue
        try:
            check(path)
        except ValueError as error:
            raise UsageError(f"--{name} {path}: {error}") from None
