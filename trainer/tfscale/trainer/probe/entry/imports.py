"""Modules that concern the probe, and a call after the import of each; needs the standard library alone."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # as type checkers understand it, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

MODULES = (
    "tensorflow",
    "keras",
    "keras._tf_keras.keras",
    "keras._tf_keras.keras.callbacks",
    "keras._tf_keras.keras.layers",
    "keras._tf_keras.keras.utils",
    "keras.callbacks",
    "keras.engine.data_adapter",
    "keras.engine.training",
    "keras.layers",
    "keras.mixed_precision",
    "keras.optimizers",
    "keras.optimizers.legacy.optimizer_v2",
    "keras.optimizers.optimizer",
    "keras.src.backend.tensorflow.core",
    "keras.src.backend.tensorflow.ops.core",
    "keras.src.backend.tensorflow.optimizer",
    "keras.src.backend.tensorflow.trainer",
    "keras.src.callbacks",
    "keras.src.callbacks.backup_and_restore",
    "keras.src.callbacks.callback_list",
    "keras.src.callbacks.csv_logger",
    "keras.src.callbacks.history",
    "keras.src.callbacks.model_checkpoint",
    "keras.src.callbacks.tensorboard",
    "keras.src.engine.data_adapter",
    "keras.src.engine.training",
    "keras.src.export.export_lib",
    "keras.src.export.saved_model",
    "keras.src.export.saved_model_export_archive",
    "keras.src.metrics.metric",
    "keras.src.models.model",
    "keras.src.optimizers.base_optimizer",
    "keras.src.optimizers.legacy.optimizer_v2",
    "keras.src.optimizers.loss_scale_optimizer",
    "keras.src.optimizers.optimizer",
    "keras.src.saving.saving_api",
    "keras.src.utils.file_utils",
    "keras.utils",
    "tf_keras",
    "tf_keras.src.callbacks",
    "tf_keras.src.engine.data_adapter",
    "tf_keras.src.engine.training",
    "tf_keras.src.optimizers.legacy.optimizer_v2",
    "tf_keras.src.optimizers.optimizer",
)


_TENSORFLOW = MODULES[0]


def after_import(attach: Callable[[str], None], on_failure: Callable[[Exception], None] | None = None) -> None:
    """Call `attach` with each of MODULES: now if it is imported, else right after its import.

    A failure of `attach` is printed, and the program goes on without the probe.
    """

    def attempt(module: str) -> None:
        try:
            attach(module)
        except Exception as error:
            print(f"tfscale: the probe could not start, the training goes on without it: {error!r}", file=sys.stderr)
            if module == _TENSORFLOW:
                _hide()
            if on_failure is not None:
                on_failure(error)

    for module in MODULES:
        if module in sys.modules:
            _show(module)
            attempt(module)
    sys.meta_path.insert(0, _AfterImport({module for module in MODULES if module not in sys.modules}, attempt))


class _AfterImport:
    """Finder that finds nothing itself, and adds a call to the loading of some modules."""

    def __init__(self, waiting: set[str], attach: Callable[[str], None]) -> None:
        self._waiting = waiting
        self._attach = attach

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._waiting:
            return None
        spec = self._found(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_attach(module: ModuleType) -> None:
                if name not in self._waiting:  # another finder has asked this one, too
                    execute(module)
                    return
                # Not before: TensorFlow asks where Keras is, and imports it later.
                self._waiting.discard(name)
                _show(name)
                execute(module)
                self._attach(name)

            spec.loader.exec_module = execute_and_attach  # type: ignore[method-assign]
        return spec

    def _found(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """Return what the other finders find: those of packages that are installed to be edited, too."""
        others = (getattr(finder, "find_spec", None) for finder in sys.meta_path if finder is not self)
        found = (find(name, path, target) for find in others if find is not None)
        return next((spec for spec in found if spec is not None), None)


_mapped: list[object] = []
"""This file, mapped into memory: so the agent sees in the list of the process's maps that TensorFlow's import is seen,
before the probe is in, and without a socket."""


def _show(module: str) -> None:
    """Show the agent that the import of TensorFlow does not pass unseen."""
    if module != _TENSORFLOW:
        return
    import mmap

    try:
        with open(__file__, "rb") as file:  # noqa: PTH123 - as tfscale_probe.py does
            _mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # the agent then says that the probe has not seen it
        pass


def _hide() -> None:
    """Show the agent that there will be no probe."""
    _mapped.clear()
