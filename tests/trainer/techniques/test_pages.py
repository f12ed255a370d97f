"""Code on the pages of the techniques: it runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "trainer/tfscale/trainer/techniques").glob("*.py"))
OTHERS = ("custom-loop", "preemption", "sparse-gradients")
"""Pages about what is no value of `--with`."""
NAMES = [*(path.stem.replace("_", "-") for path in MODULES), *OTHERS]
PAGES = [ROOT / "docs/how-to/techniques" / f"{name}.md" for name in NAMES]


def test_each_technique_has_a_page() -> None:
    assert [page for page in PAGES if not page.exists()] == []


def block(page: Path, language: str) -> str:
    """Return the one block of a page in this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("page", "keras"),
    [
        *(pytest.param(page, "keras", id=page.stem, marks=pytest.mark.slow) for page in PAGES),
        *(
            pytest.param(page, "tf_keras", id=f"{page.stem}-tf_keras", marks=pytest.mark.matrix)
            for page in PAGES
            if "keras" in block(page, "python")
        ),
    ],
)
def test_the_code_of_a_page_prints_what_the_page_says(page: Path, keras: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(block(page, "python"))
    variables = {
        "TF_USE_LEGACY_KERAS": "1" if keras == "tf_keras" else "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    ran = subprocess.run([sys.executable, script], env=os.environ | variables, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == block(page, "text")
