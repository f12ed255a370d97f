"""The inventory of private names: complete, and as the installed TensorFlow and Keras have them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tfscale.trainer

ROOT = Path(next(path for path in tfscale.trainer.__path__))
MODULES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
PRIVATE_MODULES = ("tensorflow.python", "tensorflow.core", "keras.src", "tf_keras.src")
NOT_TENSORFLOW = {"_replace", "_asdict", "_fields", "_Environ", "_getframe", "_handle", "_target", "_active_run_stack"}
"""Attributes of named tuples, `os`, `sys`, `ctypes.CDLL` and `threading.Thread`, and of MLflow."""


@pytest.mark.tensorflow
def test_the_installed_versions_have_every_name() -> None:
    script = "from tfscale.trainer.tf_internals import faults; print(*faults(), sep='\\n')"
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == ""


@pytest.mark.tensorflow
def test_keras_2_and_keras_3_have_features_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tfscale.trainer import tf_internals

    def due() -> list[str]:
        features = (tf_internals.OPTIMIZER, *tf_internals.OPTIMIZER_KERAS_2)
        return [module for feature in filter(tf_internals.applies, features) for module in feature.modules]

    folders: dict[str, Path | None] = {"tf_keras.src": None, "keras": tmp_path, "keras.src": tmp_path / "src"}
    for name, folder in folders.items():
        package: Any = ModuleType(name)
        package.__path__ = [str(folder)]
        monkeypatch.setitem(sys.modules, name, package if folder else None)
    assert due() == ["keras.src.optimizers.base_optimizer"]
    (tmp_path / "src" / "engine").mkdir(parents=True)
    assert due() == ["keras.src.optimizers.optimizer"]
    (tmp_path / "src").rename(tmp_path / "gone")
    (tmp_path / "engine").mkdir()
    assert due() == ["keras.optimizers.optimizer"]


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_names(tree: ast.AST) -> Iterator[str]:
    """Return the names with an underscore that a module defines by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def foreign_attributes(tree: ast.AST) -> Iterator[str]:
    """Return the attributes with one underscore that the module uses and defines nowhere."""
    own = set(own_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
        else:
            continue
        if name.startswith("_") and not name.startswith("__") and name not in own | NOT_TENSORFLOW:
            yield name


@pytest.mark.parametrize("module", [name for name in MODULES if name != "tf_internals.py"])
def test_no_other_module_imports_what_is_private(module: str) -> None:
    assert [name for name in imports(MODULES[module]) if name.startswith(PRIVATE_MODULES)] == []


def test_every_private_attribute_is_in_the_inventory() -> None:
    listed = set(re.findall(r"\w+", (ROOT / "tf_internals.py").read_text()))
    used = {name for tree in MODULES.values() for name in foreign_attributes(tree)}
    ours = {name for tree in MODULES.values() for name in own_names(tree)}
    assert used - ours - listed == set()
