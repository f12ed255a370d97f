"""Code on the pages about parallel models runs as it stands there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).parents[3] / "docs" / "how-to" / "techniques"


def code_of(name: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model-parallelism", "tensor-parallelism"])
def test_the_code_of_a_page_trains(run_code: Callable[..., Any], name: str) -> None:
    ran = run_code(code_of(name))
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = re.search(r"^loss (\S+) at first, (\S+) after 20 steps$", ran.stdout, re.MULTILINE)
    assert said and float(said[2]) < 0.9 * float(said[1]), ran.stdout


@pytest.mark.slow
def test_the_pipeline_of_the_page_has_the_gradients_of_one_device(run_code: Callable[..., Any]) -> None:
    ran = run_code(code_of("pipeline-parallelism"))
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = re.search(r"^largest difference to the gradients of one device: (\S+)$", ran.stdout, re.MULTILINE)
    assert said and float(said[1]) < 1e-6, ran.stdout
