"""Programs that start processes, end in ways of their own, or change what their process has."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import tensorflow as tf
from program import STEPS, arrays, batches, compiled, learn, main, model, program, report, told


def _fit(epochs=1):
    return compiled().fit(batches(), epochs=epochs, verbose=0).history["loss"]


def _python(source, **options):
    """Run a Python program in a process of its own; return what it wrote."""
    done = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True, **options)
    return done.stdout.split()[-1]


_EVALUATES = """
import tensorflow as tf
network = tf.keras.models.load_model("trained.keras")
print(network.evaluate(tf.ones((64, 8)), tf.ones((64, 1)), verbose=0))
"""

_TRAINS = """
import numpy as np, tensorflow as tf, sys
tf.keras.utils.set_random_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
network = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(1)])
network.compile("sgd", "mse")
x = np.random.default_rng(1).random((160, 8), "float32")
print(network.fit(x, x.sum(axis=1), batch_size=16, shuffle=False, verbose=0).history["loss"][0])
"""


@program()
def evaluated_by_another_process():
    """Train, save, let a process evaluate, and train on: the helper is not the training."""
    network = compiled()
    losses = network.fit(batches(), verbose=0).history["loss"]
    network.save("trained.keras")
    score = float(_python(_EVALUATES))
    return told([*losses, score, *network.fit(batches(), verbose=0).history["loss"]], 2 * STEPS)


@program(quick=False)
def helper_that_trains_before_the_training():
    """Let another process pretrain before this one trains."""
    return told([float(_python(_TRAINS)), *_fit(2)], [10, 2 * STEPS])


@program(quick=False)
def each_fold_in_a_process():
    """Let children train, one after the other; the parent makes no step of its own."""
    return told([float(_python(_TRAINS)) for _ in range(3)], [10, 10, 10])


@program(quick=False)
def child_by_fork():
    """Fork while there is TensorFlow; the child does something else, and ends by os._exit."""
    losses = _fit()
    if (child := os.fork()) == 0:
        Path("child.txt").write_text("done")
        os._exit(0)
    os.waitpid(child, 0)
    return told(losses + _fit(), 2 * STEPS)


@program(quick=False)
def begun_anew_by_exec():
    """Replace the process by one with other variables, before anything is imported, as launchers do."""
    if os.environ.get("AGAIN") != "1":
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"AGAIN": "1"})
    return told(_fit(2), 2 * STEPS)


@program(quick=False)
def loaders_in_processes():
    """Examples made by a pool of processes that were spawned."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        rows = pool.map(abs, range(32))
    return told([*_fit(2), float(sum(rows))], 2 * STEPS)


@program()
def ends_by_os_exit():
    losses = _fit(2)
    report(told(losses, 2 * STEPS))
    sys.stdout.flush()
    os._exit(0)


@program(exit=3)
def exits_with_a_status():
    report(told(_fit(2), 2 * STEPS))
    sys.exit(3)


@program(exit=1)
def ends_in_an_exception():
    report(told(_fit(2), 2 * STEPS))
    raise RuntimeError("the folder of results is full")


@program(exit=1, quick=False)
def ends_in_an_error_of_tensorflow():
    network, losses = compiled(), []
    losses += network.fit(batches(), verbose=0).history["loss"]
    report(told(losses))
    network.fit(tf.ones((16, 5)), tf.ones((16, 1)), verbose=0)


@program(quick=False)
def catches_a_signal_and_saves():
    """Handle SIGTERM, as on machines that can be taken away; here the program sends it to itself."""
    network, optimizer, asked = model(), tf.keras.optimizers.SGD(0.01), []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    step, losses = tf.function(lambda x, y: learn(network, optimizer, x, y)), []
    for number, (x, y) in enumerate(batches()):
        losses.append(float(step(x, y)))
        if number == 19:
            os.kill(os.getpid(), signal.SIGTERM)
        if asked:
            network.save("saved.keras")
            break
    return told(losses, 20)


@program(exit=1, quick=False)
def stopped_by_an_alarm():
    """Limit the time by SIGALRM, whose handler raises."""

    def over(number, frame):
        raise TimeoutError("time is over")

    report(told(_fit(2), 2 * STEPS))
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    time.sleep(10)


@program(quick=False)
def output_without_a_last_newline():
    losses = _fit(2)
    report(told(losses, 2 * STEPS))
    sys.stdout.write("all done")
    sys.stdout.flush()
    os._exit(0)


@program()
def output_of_many_kinds():
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("training").info("begins")
    tf.get_logger().warning("a warning of TensorFlow's logger")
    print("Grüße, 你好", "\x1b[32mgreen\x1b[0m")
    losses = _fit(2)
    sys.stderr.write("to the other stream\n")
    os.write(1, b"past Python's buffer \xff\n")
    subprocess.run(["echo", "from a child"], check=True)
    return told(losses, 2 * STEPS)


@program(quick=False)
def output_to_a_file_of_its_own():
    said = os.dup(1)
    with Path("train.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        losses = _fit(2)
        print("loss", losses, flush=True)
        os.dup2(said, 1)
    return told(losses, 2 * STEPS)


@program(quick=False)
def variables_changed():
    """Change the environment and the folder while it runs."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.pop("PYTHONPATH", None)
    Path("results").mkdir()
    os.chdir("results")
    losses = _fit(2)
    Path("losses.txt").write_text("saved")
    return told(losses, 2 * STEPS)


@program(quick=False)
def threads_that_go_on():
    """Watch by a thread, which is still there at the end."""
    seen = []

    def watch():
        while True:
            seen.append(len(threading.enumerate()))
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()
    return told(_fit(2), 2 * STEPS)


@program(quick=False)
def threads_of_tensorflow_set():
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(1)
    return told(_fit(2), 2 * STEPS)


@program(quick=False)
def warnings_as_errors():
    warnings.simplefilter("error", DeprecationWarning)
    sys.setrecursionlimit(5000)
    return told(_fit(2), 2 * STEPS)


@program(quick=False)
def standard_streams_closed():
    """Like a daemon: without standard input, and with its output in a file."""
    sys.stdin.close()
    os.close(0)
    losses = _fit(2)
    x, y = arrays(64)
    return told([*losses, compiled().evaluate(x, y, verbose=0)], 2 * STEPS)


if __name__ == "__main__":
    main()
