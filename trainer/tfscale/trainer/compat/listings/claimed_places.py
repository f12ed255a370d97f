"""Places in a cluster that a script claims: index 0 on every host would leave the other places empty for ever."""

from __future__ import annotations

import functools
import json
from typing import Any

import tensorflow as tf
from tfscale.trainer.compat.listings.erratum import Erratum
from tfscale.trainer.probe.process.agent_variables import agent_variable


def repair(tensorflow: Any) -> None:
    """Refuse a MultiWorkerMirroredStrategy in a place other than the agent's: it would wait for that place's owner."""
    kind = tensorflow.distribute.MultiWorkerMirroredStrategy
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, cluster_resolver: Any = None, *args: Any, **kwargs: Any) -> None:
        resolver = cluster_resolver or tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if (refusal := doubt(resolver.task_type, resolver.task_id, agent_variable("TFSCALE_TASK"))) is not None:
            raise Erratum(refusal)
        make(self, cluster_resolver, *args, **kwargs)

    kind.__init__ = made


def doubt(role: str | None, index: int | None, own: str | None) -> str | None:
    """Return why a task must not take this place, None where it may; `own` is the task's place by its agent."""
    own_role, _, own_index = (own or "").partition(":")
    if not own or index is None or role != own_role or str(index) == own_index:
        return None
    task = json.dumps({"type": own_role, "index": int(own_index)})
    return (
        f"the script claims the place of {role}:{index}, and this is {own}: two tasks in one place wait for ever for "
        f'the empty one: write "task": {task} here, or leave TF_CONFIG to the agent (without --script-tf-config)'
    )
