"""Training without TensorFlow: counted steps of 50 ms, a checkpoint after every tenth, and a child that sleeps.

A line of the task's file is a step: the process that made it, and its number. $ENDING is the time in seconds that it
takes to end, $LAST its last step. The file NAME.order tells it to do something: `eat` memory, or `exit`.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER, NAME = Path(sys.argv[1]), os.environ["TFSCALE_TASK"].replace(":", "-")
ENDING, LAST = float(os.environ.get("ENDING", "0.4")), int(os.environ.get("LAST", "0"))
STEP, EVERY = 0.05, 10
CHECKPOINT, ORDER = FOLDER / f"{NAME}.checkpoint", FOLDER / f"{NAME}.order"


def end(*_: object) -> None:
    time.sleep(ENDING)
    child.kill()
    sys.exit(143)


def save(step: int) -> None:
    written = CHECKPOINT.with_suffix(".new")
    written.write_text(str(step))
    written.replace(CHECKPOINT)


def obey(word: str) -> None:
    if word == "eat":
        eaten = []
        while True:
            eaten.append(os.urandom(1 << 20) * 8)
    child.kill()
    sys.exit(3)


step = int(CHECKPOINT.read_text()) if CHECKPOINT.exists() else 0
with subprocess.Popen(["sleep", "3600"]) as child, (FOLDER / f"{NAME}.steps").open("a", buffering=1) as file:
    (FOLDER / f"{NAME}.child").write_text(str(child.pid))
    signal.signal(signal.SIGTERM, end)
    print("trains", flush=True)
    while not LAST or step < LAST:
        time.sleep(STEP)
        step += 1
        file.write(f"{os.getpid()} {step}\n")
        if step % EVERY == 0:
            save(step)
        if ORDER.exists():
            obey(ORDER.read_text())
    child.kill()
