"""Program that holds the role of its task in one generation for as long as it runs, and says so five times a second.

Usage: held_role.py FOLDER ENDING. It takes ENDING seconds to end. A second process that takes the same role of the same
generation writes its name to FOLDER/twice: a lock on the shared disk tells, also where hosts do not reach each other.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

folder, ending = Path(sys.argv[1]), float(sys.argv[2])
role = f"{os.environ['TFSCALE_TASK']} {os.environ['TFSCALE_GENERATION']}"
held = (folder / f"held-{role.replace(':', '-').replace(' ', '-')}").open("a")
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    with (folder / "twice").open("a") as twice:
        print(role, file=twice)


def end(*_: object) -> None:
    time.sleep(ending)
    sys.exit(143)


signal.signal(signal.SIGTERM, end)
while True:
    with (folder / "beats").open("a") as beats:
        print(time.time(), role, os.getpid(), file=beats)
    time.sleep(0.2)
