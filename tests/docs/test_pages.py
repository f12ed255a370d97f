"""Code on the pages: all blocks of a page, in their order, are one program that prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in ROOT.rglob("*.md") if not {".venv", "tests"} & {*path.relative_to(ROOT).parts})
BLOCK = re.compile(r"(<!-- not run alone: .*-->\n)?^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block with its language, and before it the comment with which a page takes one out of its program."""
RUN_ALL = """
import os, runpy, sys
import tensorflow as tf

tf.keras.layers  # with TensorFlow the longest part of each page: imported once, and all pages are forks
for folder in sys.argv[1:]:
    if not (child := os.fork()):
        os.chdir(folder)
        for number, name in ((1, "said.txt"), (2, "errors.txt")):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
        runpy.run_path("page.py", run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(folder)
"""


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return comment, language and text of each block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def program(page: Path) -> str:
    """Return the Python blocks of a page as one program; empty where it has none that runs alone."""
    return "\n".join(text for comment, language, text in blocks(page) if language == "python" and not comment)


def printed(page: Path) -> str:
    """Return what a page says that its program prints."""
    return "".join(text for _, language, text in blocks(page) if language == "text")


@pytest.mark.tensorflow
@pytest.mark.parametrize("keras", ["keras", pytest.param("tf_keras", marks=pytest.mark.matrix)])
def test_the_code_of_each_page_prints_what_the_page_says(keras: str, tmp_path: Path) -> None:
    folders = {page: tmp_path / str(number) for number, page in enumerate(PAGES) if program(page)}
    for page, folder in folders.items():
        folder.mkdir()
        (folder / "page.py").write_text(program(page))
    variables = {
        "TF_USE_LEGACY_KERAS": "1" if keras == "tf_keras" else "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-c", RUN_ALL, *folders.values()]
    ran = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
    said = {page: (folder / "said.txt").read_text() for page, folder in folders.items()}
    wrong = [page for page in folders if said[page] != printed(page) or str(folders[page]) in ran.stdout.splitlines()]
    assert not wrong, "\n".join(f"{page}:\n{said[page]}{(folders[page] / 'errors.txt').read_text()}" for page in wrong)


def test_code_that_is_not_run_alone_names_the_test_that_runs_it() -> None:
    comments = {page: comment for page in PAGES for comment, *_ in blocks(page) if comment}
    named = {page: re.findall(r"tests/\S+\.py", comment) for page, comment in comments.items()}
    assert {page: paths for page, paths in named.items() if not paths or not (ROOT / paths[0]).is_file()} == {}
