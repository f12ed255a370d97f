"""Sudden ends of a process, each a process of its own."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from tfscale.trainer.probe.hooks.process_ends import before_sudden_end

before_sudden_end(lambda: print("told", os.getpid() == own, flush=True), 5.0)
own = os.getpid()
{end}
print("went on", flush=True)
"""


def said(end: str) -> list[str]:
    command = [sys.executable, "-c", SCRIPT.format(end=end)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")


@pytest.mark.parametrize("end", ["os._exit(3)", "os.execv('/bin/true', ['true'])", "os.execlp('true', 'true')"])
def test_it_is_told_before(end: str) -> None:
    first, *rest = said(end)
    assert first == "told True" and "went on" not in rest


def test_a_program_that_is_not_there_lets_the_process_go_on() -> None:
    assert said("try: os.execv('/no/program', ['no'])\nexcept OSError: pass") == ["told True", "went on", ""]


def test_a_call_that_hangs_or_fails_holds_up_no_end() -> None:
    hangs = SCRIPT.replace('print("told", os.getpid() == own, flush=True), 5.0', "__import__('time').sleep(600), 0.2")
    fails = SCRIPT.replace('print("told", os.getpid() == own, flush=True)', "1 / 0")
    for script in (hangs, fails):
        command = [sys.executable, "-c", script.format(end="os._exit(3)")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_a_forked_child_tells_nothing() -> None:
    assert said("if (pid := os.fork()) == 0: os._exit(0)\nos.waitpid(pid, 0)") == ["went on", ""]
