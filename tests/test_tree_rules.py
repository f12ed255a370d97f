"""Each rule of scripts/ci/tree_rules.py is broken once, and reported with its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RULES = Path(__file__).parents[1] / "scripts" / "ci" / "tree_rules.py"
TABLE = f"| {'wide ' * 40}|\n"
CODE = f"    {'wide ' * 40}\n\n```\n{'wide ' * 40}\n```\n"
GOOD = '''"""Steps of one task."""

LIMIT = 3
"""Steps at most."""


class Step:
    """One step."""

    length: float
    """Seconds."""

    @property
    def rate(self) -> float:
        """Steps a second."""

    def end(self) -> None:
        """End the step."""
'''


def faults(root: Path) -> list[str]:
    done = subprocess.run([sys.executable, RULES, root], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small tree without a fault."""
    files = {
        "core/tfscale/core/steps.py": GOOD,
        "core/tfscale/core/__init__.py": "",
        "core/tfscale/core/wire.py": "",
        "agent/tfscale/agent/__init__.py": "",
        "agent/tfscale/agent/wire.py": "",
        "agent/tfscale/agent/cli.py": "",
        "scripts/bench/steps.py": GOOD,
        "tests/core/test_steps.py": GOOD,
        "docs/page.md": TABLE + CODE + "- " + "x" * 200 + "\n",
        "README.md": "short\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_tree_without_a_fault(tree: Path) -> None:
    assert faults(tree) == []


def test_a_folder_with_too_many_modules(tree: Path) -> None:
    folder = tree / "core/tfscale/core"
    for number in range(10):
        (folder / f"module{number}.py").touch()
    assert faults(tree) == []
    (folder / "module10.py").touch()
    assert faults(tree) == ["core/tfscale/core:1: folder has 13 modules, at most 12 are allowed"]


def test_a_folder_of_tests_with_too_many_modules_but_for_those_of_cases(tree: Path) -> None:
    for folder in ("tests/core", "tests/e2e/programs/loops", "tests/e2e/faults/kinds"):
        (tree / folder).mkdir(parents=True, exist_ok=True)
        for number in range(12):
            (tree / folder / f"test_module{number}.py").touch()
    assert faults(tree) == ["tests/core:1: folder has 13 modules, at most 12 are allowed"]


def test_two_modules_of_one_name(tree: Path) -> None:
    (tree / "agent/tfscale/agent/steps.py").touch()
    assert faults(tree) == ["agent/tfscale/agent/steps.py:1: module has the name of core/tfscale/core/steps.py"]


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ("Steps of one", "What one", "1: docstring begins with 'What'"),
        ("Steps at most", "Of steps the most", "4: docstring of an attribute begins with 'Of'"),
        ("One step", "Whoever steps", "8: docstring begins with 'Whoever'"),
        ("Seconds.", "Returns seconds.", "11: docstring of an attribute begins with 'Returns'"),
        ("Steps a second", "Return steps a second", "15: docstring of a property begins with 'Return'"),
        ("Steps a second", "Whether it is fast", "15: docstring of a property begins with 'Whether'"),
        ("End the step", "The step's end", "18: docstring of a function begins with 'The'"),
        ("End the step", "Where, it ends", "18: docstring of a function begins with 'Where'"),
    ],
)
@pytest.mark.parametrize("name", ["core/tfscale/core/steps.py", "scripts/bench/steps.py", "tests/core/test_steps.py"])
def test_a_docstring_that_begins_with_a_wrong_word(tree: Path, name: str, good: str, bad: str, fault: str) -> None:
    (tree / name).write_text(GOOD.replace(good, bad, 1))
    assert faults(tree) == [f"{name}:{fault}"]


def test_the_docstring_of_a_test_may_tell_why(tree: Path) -> None:
    name, test = "tests/core/test_steps.py", GOOD.replace("def end", "def test_end")
    (tree / name).write_text(test.replace("End the step", "The step has an end"))
    assert faults(tree) == []
    (tree / name).write_text(test.replace("End the step", "Whether the step ends"))
    assert faults(tree) == [f"{name}:18: docstring of a test begins with 'Whether'"]


@pytest.mark.parametrize("name", ["README.md", "docs/page.md", "docs/how-to/page.md"])
def test_a_long_line(tree: Path, name: str) -> None:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("short\n" + "word " * 30 + "\n")
    assert faults(tree) == [f"{name}:2: line is longer than 120 characters"]


def test_a_call_with_too_many_arguments_by_place(tree: Path) -> None:
    (tree / "core/tfscale/core/calls.py").write_text(
        '"""Calls."""\n\nprint(1, 2, 3, 4, 5, 6)\nprint(1, 2, 3, 4, 5, 6, 7)\n'
    )
    assert faults(tree) == ["core/tfscale/core/calls.py:4: call gives 7 arguments by place, at most 6 are allowed"]
