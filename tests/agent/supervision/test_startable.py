"""Foresight of whether a program can be started, compared with what happens when it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tfscale.agent.supervision.startable import why_not_startable


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)


@pytest.mark.parametrize(
    "program", [sys.executable, "sh", "./program", "./plain", "./absent", "no-such-program", "./", "program"]
)
def test_what_is_foreseen_happens(program: str, tmp_path: Path) -> None:
    why = why_not_startable([program, "-c", ""], Path.cwd(), str(tmp_path), os.environ)
    try:
        subprocess.run([program, "-c", ""], cwd=tmp_path, check=False, capture_output=True)
    except OSError as error:
        assert why is not None and (error.strerror in why or "is a folder" in why)
    else:
        assert why is None


def test_a_folder_that_is_gone_is_named() -> None:
    assert "'/no/such/folder'" in (why_not_startable(["sh"], Path.cwd(), "/no/such/folder", os.environ) or "")
