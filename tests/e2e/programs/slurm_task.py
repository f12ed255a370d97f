"""Small program of a Slurm task: it tells where it is, and waits, beside a chief until it is stopped.

With a third word it saves at SIGTERM, and ends.
"""

import json
import os
import signal
import socket
import sys
import time


def save(*_: object) -> None:
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(7)


if len(sys.argv) > 3:
    signal.signal(signal.SIGTERM, save)
own = {name: os.environ.get(name, "") for name in ("SLURM_PROCID", "TFSCALE_RUN", "TFSCALE_TASK")}
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
print(json.dumps({**own, "host": socket.gethostname(), **config}), flush=True)
serves = "chief" in config.get("cluster", {}) and config["task"]["type"] != "chief"
time.sleep(float(sys.argv[1]) + 60 * serves)
if sys.argv[2].startswith("-"):
    os.kill(os.getpid(), -int(sys.argv[2]))
sys.exit(int(sys.argv[2]))
