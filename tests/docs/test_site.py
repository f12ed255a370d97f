"""The pages of docs/ make a site in which no link is broken and nothing is loaded from elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PARTS = ("docs", "scripts", "mkdocs.yml", "pyproject.toml")


@pytest.mark.slow
def test_the_site_is_made_and_a_broken_link_and_a_foreign_picture_are_refused(tmp_path: Path) -> None:
    for part in _PARTS:
        place = ROOT / part
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / part)
    made = _site(tmp_path)
    assert made.returncode == 0, made.stderr
    programs = (tmp_path / "build" / "site" / "reference" / "programs" / "index.html").read_text()
    assert 'href="https://forge.example/team/tfscale/blob/HEAD/CONTRIBUTING.md#the-matrix"' in programs

    page = tmp_path / "docs" / "README.md"
    text = page.read_text()
    page.write_text(f"{text}\n![x](https://elsewhere.example/x.png)\n")
    foreign = _site(tmp_path)
    assert foreign.returncode == 1 and "elsewhere.example" in foreign.stderr
    page.write_text(f"{text}\n[x](how-to/absent.md) [y](how-to/install.md#absent)\n")
    broken = _site(tmp_path)
    assert broken.returncode == 1 and "Aborted with 2 warnings in strict mode!" in broken.stderr


def _site(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [folder / "scripts" / "docs" / "site", "https://forge.example/team/tfscale"]
    return subprocess.run(command, capture_output=True, text=True, check=False)
