"""A release is built from a commit alone, and each of its files is installed as users do."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VERSION = "0.1.0"
REPOSITORY = "https://forge.example/team/tfscale"

TOOLS = {"uv": ["tool", "run", "--from"], "pipx": ["run", "--spec"]}


@pytest.mark.slow
def test_a_release_is_built_from_a_commit_alone_and_each_file_serves_as_users_install_it(tmp_path: Path) -> None:
    clone, environment = tmp_path / "tfscale", tmp_path / "environment"
    _run("git", "clone", "--quiet", ROOT, clone)
    changes = clone / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace("## Unreleased", f"## {VERSION} - 2026-01-01", 1))
    _run("git", "-c", "user.name=n", "-c", "user.email=n@n", "commit", "--quiet", "--all", "--message=x", cwd=clone)
    _run(clone / "scripts" / "release", VERSION, "--repository", REPOSITORY, "--tag", cwd=clone)
    assert _run("git", "tag", "--points-at", "HEAD", cwd=clone) == f"v{VERSION}\n"
    files = {path.name.removeprefix(f"tfscale-{VERSION}"): path for path in (clone / "dist").iterdir()}
    pure, native = "-py3-none-any.whl", "-py3-none-manylinux2014_{}.whl"
    assert files.keys() == {".tar.gz", pure, native.format("x86_64"), native.format("aarch64")}

    _run(sys.executable, "-m", "venv", environment)
    _run(environment / "bin" / "pip", "install", "--quiet", files[native.format(platform.machine())], *TOOLS)
    _check_installed(environment)

    homes = {name: str(tmp_path / name) for name in ("PIPX_HOME", "UV_TOOL_DIR", "UV_CACHE_DIR")}
    for tool, words in TOOLS.items():
        command = [environment / "bin" / tool, *words, files[pure], "tfscale-console", "--version"]
        assert _run(*command, variables=homes) == f"tfscale {VERSION}\n"


def _check_installed(environment: Path) -> None:
    """Check programs, completions, man pages, metadata and the C library of a wheel, without TensorFlow."""
    for program in ("agent", "console", "train"):
        assert _run(environment / "bin" / f"tfscale-{program}", "--version") == f"tfscale {VERSION}\n"
    told = _run(environment / "bin" / "tfscale-console", "--simulate", "2", "--headless", "--seconds", "1")
    assert '"worker:1"' in told
    assert _completed(environment / "share" / "bash-completion" / "completions" / "tfscale-console", "rep") == (
        "replay report\n"
    )
    assert "restart tasks" in _run("man", "--local-file", environment / "share" / "man" / "man1" / "tfscale-console.1")
    (packages,) = environment.glob("lib/*/site-packages")
    (metadata,) = packages.glob("tfscale-*.dist-info/METADATA")
    text = metadata.read_text()
    assert f"({REPOSITORY}/raw/v{VERSION}/docs/pictures/recording.svg)" in text and "](docs/" not in text
    assert len(list(packages.glob("tfscale/trainer/probe/rows/*.so"))) == 1
    assert not (packages / "tensorflow").exists()


def _completed(file: Path, word: str) -> str:
    """Return what bash offers for the begin of a command's name."""
    lines = (
        f"source {file}",
        f"COMP_WORDS=(tfscale-console {word}) COMP_CWORD=1",
        "_shtab_tfscale_console",
        'echo "${COMPREPLY[@]}"',
    )
    return _run("bash", "-c", "\n".join(lines))


def _run(*command: str | Path, cwd: Path | None = None, variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(variables or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
