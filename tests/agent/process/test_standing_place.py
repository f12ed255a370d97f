"""Places found in stacks of real processes, as `faulthandler` writes them."""

import subprocess
import sys
from pathlib import Path

import pytest
from tfscale.agent.on_demand.stack_requests import main_first
from tfscale.agent.process.standing_place import standing_place

WRITES = "import faulthandler, sys, threading, time\n"
SOON = "time.sleep(0.3); faulthandler.dump_traceback(sys.stdout); sys.stdout.flush(); __import__('os')._exit(0)"


def stacks(folder: Path, program: str) -> str:
    """Return the stacks of a program, the main thread's first, as another thread of it writes them."""
    path = folder / "train.py"
    path.write_text(f"{WRITES}threading.Thread(target=lambda: exec({SOON!r})).start()\n{program}")
    return main_first(subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout)


def test_a_program_that_waits_for_a_lock_stands_at_its_own_line(tmp_path: Path) -> None:
    program = "def locked():\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()\nlocked()\n"
    assert standing_place(stacks(tmp_path, program)) == "its program stands at train.py, line 6 (locked)"


def test_the_standard_library_in_which_it_waits_is_left_out(tmp_path: Path) -> None:
    program = "threading.Event().wait()\n"
    assert standing_place(stacks(tmp_path, program)) == "its program stands at train.py, line 3 (<module>)"


FIT = """Main thread (most recent call first):
  File "/venv/lib/python3.11/site-packages/tensorflow/python/eager/execute.py", line 53 in quick_execute
  File "/venv/lib/python3.11/site-packages/keras/src/trainers/trainer.py", line 371 in fit
  File "/home/me/train.py", line 80 in <module>"""
READER = """Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/pathlib.py", line 1050 in read_bytes
  File "/home/me/reading.py", line 31 in examples
  File "/venv/lib/python3.11/site-packages/tensorflow/python/data/ops/from_generator_op.py", line 204 in get
  File "/venv/lib/python3.11/site-packages/tensorflow/python/ops/script_ops.py", line 147 in __call__"""
IN_A_STEP = """Thread 0x00007f01 (most recent call first):
  File "/home/me/train.py", line 16 in act
  File "/venv/lib/python3.11/site-packages/tensorflow/python/ops/script_ops.py", line 147 in __call__"""
IDLE = """Thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/venv/lib/python3.11/site-packages/tfscale/trainer/probe/probe.py", line 200 in _run"""


@pytest.mark.parametrize(
    ("blocks", "place"),
    [
        ((FIT, IDLE, READER), "its input stands at reading.py, line 31 (examples)"),
        ((FIT, IDLE, IN_A_STEP), "Python that its graph calls stands at train.py, line 16 (act)"),
        ((FIT, IDLE), "its program waits in TensorFlow, called at train.py, line 80 (<module>)"),
        ((IDLE, IDLE), ""),
        ((), ""),
    ],
    ids=["input", "step", "tensorflow", "nobody", "nothing"],
)
def test_where_a_training_stands(blocks: tuple[str, ...], place: str) -> None:
    assert standing_place("\n\n".join(blocks)) == place
