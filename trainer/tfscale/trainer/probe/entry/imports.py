"""Modules that concern the probe, and a call after the import of each; needs the standard library alone."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder

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


def after_import(attach: Callable[[str], None], on_failure: Callable[[Exception], None] | None = None) -> None:
    """Call `attach` with each of MODULES: now if it is imported, else right after its import.

    A failure of `attach` is printed, and the program goes on without the probe.
    """

    def attempt(module: str) -> None:
        try:
            attach(module)
        except Exception as error:
            print(f"tfscale: the probe could not start, the training goes on without it: {error!r}", file=sys.stderr)
            if on_failure is not None:
                on_failure(error)

    for module in MODULES:
        if module in sys.modules:
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
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_attach(module: ModuleType) -> None:
                # Not before: TensorFlow asks where Keras is, and imports it later.
                self._waiting.discard(name)
                execute(module)
                self._attach(name)

            spec.loader.exec_module = execute_and_attach  # type: ignore[method-assign]
        return spec
