"""Every place that docs/architecture.md names is there: each folder, each file, each name in a file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PARTS = ("core", "agent", "console", "trainer")
PLACES = sorted(set(re.findall(r"`([\w./-]+\.(?:py|c|proto))(?::([\w.:]+))?`", PAGE)))
FOLDERS = sorted(set(re.findall(r"^\| \**`([\w/]+)/`", PAGE, re.MULTILINE)))


def found(path: str) -> list[Path]:
    """Return the files or folders that a path of the page may mean: a part's own, or any that ends so."""
    part = path.partition("/")[0]
    places = [ROOT / part / "tfscale" / path, ROOT / path] if part in PARTS else [ROOT / path]
    there = [place for place in places if place.exists()]
    return there or [each for part in PARTS for each in (ROOT / part / "tfscale").rglob(path)]


def has(path: Path, name: str) -> bool:
    """Decide whether the file defines `Class.method`, `function:inner`, a constant or a field of that name."""
    text = path.read_text()
    if path.suffix != ".py":
        return re.search(rf"\b{name}\b", text) is not None
    nodes: list[ast.AST] = [ast.parse(text)]
    for word in re.split(r"[.:]", name):
        nodes = [inner for node in nodes for inner in ast.walk(node) if word in names_of(inner)]
    return bool(nodes)


def names_of(node: ast.AST) -> set[str]:
    """Return the names that a definition or an assignment gives."""
    targets = [*getattr(node, "targets", ()), getattr(node, "target", None)] if isinstance(node, ast.stmt) else []
    return {getattr(node, "name", ""), *(target.id for target in targets if isinstance(target, ast.Name))}


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_each_place_on_the_map_exists(path: str, name: str) -> None:
    files = found(path)
    assert files, f"{path} is not there"
    assert not name or any(has(file, name) for file in files), f"{path} has no {name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_on_the_map_exists(folder: str) -> None:
    assert any(place.is_dir() for place in found(folder))


def test_each_folder_of_the_product_is_on_the_map() -> None:
    folders = {f.parent.relative_to(ROOT / part / "tfscale") for part in PARTS for f in (ROOT / part).rglob("*.py")}
    absent = [str(folder) for folder in sorted(folders) if f"{folder.name}/`" not in PAGE]
    assert not absent
