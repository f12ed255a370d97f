"""Line of advice for a TPU that does not answer, printed after the long trace of TensorFlow's error."""

from __future__ import annotations

from typing import Any

from tfscale.trainer import tf_internals
from tfscale.trainer.compat.listings.last_error import advise
from tfscale.trainer.compat.listings.tpu_addresses import check
from tfscale.trainer.probe.hooks.patches import Method, Patches


def install(patches: Patches) -> None:
    """Print advice if a script ends for want of a TPU, which is not contacted for it."""

    def resolve(method: Method, resolver: Any, tpu: Any = None, *args: Any, **kwargs: Any) -> None:
        check(tpu)
        method(resolver, tpu, *args, **kwargs)

    def attempt(method: Method) -> Method:
        def attempted(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except Exception as error:
                advise(error, _sentence(error))
                raise

        return attempted

    def start(method: Method, *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    hooks = {"TPUClusterResolver.__init__": attempt(resolve), "initialize_tpu_system_impl": attempt(start)}
    patches.put(tf_internals.TPU, hooks)


def _sentence(error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"no TPU to train on ({reason}): run this on a TPU VM with TPUClusterResolver(tpu='local'), name the TPU that "
        "is to be used, or take another strategy"
    )
