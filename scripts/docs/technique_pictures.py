"""Pictures of the pages of techniques: the console on real runs of `tfscale-train`, exported by Textual as SVG.

    .venv/bin/python scripts/docs/technique_pictures.py [--out docs/pictures/techniques] [--only wire]

Each run lasts some 30 s, and its numbers are of the machine that it is on: keep others from it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pictures  # sets the paths of the packages
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels
from tfscale.console.transport.commands import AgentCommands
from tfscale.console.tui.app import ConsoleApp
from tfscale.core.cluster.file.cluster_file import load_cluster

WORKERS = ("--strategy", "multi-worker", "--workers", "2")
ENDLESS = ("--steps", "1000000")
BEGUN = 60.0
"""Seconds within which a run has to make its first step."""


@dataclass(frozen=True)
class TechniquePicture:
    """A run, and the keys that are pressed after some seconds of its steps."""

    words: Sequence[str]
    keys: Sequence[str] = ()
    seconds: float = 25
    lines: int = 22
    pause: float = 1.5
    """Seconds after each key."""
    keeps: bool = False
    """True where the run gets a folder for checkpoints."""
    measured: bool = True
    """False where the probe leaves the program alone, so that no step can be waited for."""


TASK = ("enter",)
PICTURES = {
    "accumulation": TechniquePicture(("digits", *WORKERS, "--with", "accumulation=4"), TASK, lines=36),
    "asynchrony": TechniquePicture(("asynchrony", "--batch", "256", "--slow", "worker:1=3x"), lines=26),
    "backup-workers": TechniquePicture(
        ("backup-workers", "--needed", "2", "--slow", "worker:2=300ms"),
    ),
    "batch-by-speed": TechniquePicture(("batch-by-speed", "--global-batch", "2048", "--slow", "worker:1=2x")),
    "custom-loop": TechniquePicture(("digits", "--strategy", "mirrored", "--replicas", "2", "--loop", "custom")),
    "learning-rate": TechniquePicture(
        ("digits", "--strategy", "mirrored", "--replicas", "4", "--with", "learning-rate=20:cosine"), TASK, lines=36
    ),
    "local-sgd": TechniquePicture(("digits", *WORKERS, "--with", "local-sgd=8")),
    "mixed": TechniquePicture(("cifar-small", "--with", "mixed=bfloat16"), TASK, lines=36),
    "model-parallelism": TechniquePicture(("model-parallel",)),
    "packs": TechniquePicture(("mlp", *WORKERS, "--with", "packs=256KiB"), TASK, lines=36),
    "pipeline-parallelism": TechniquePicture(("pipeline", "--micro-batches", "8"), TASK, lines=36),
    "preemption": TechniquePicture(("digits", *WORKERS), ("r", "y"), pause=12, lines=26, keeps=True),
    "sparse-gradients": TechniquePicture(("sparse", *WORKERS), TASK, lines=36),
    "tensor-parallelism": TechniquePicture(("tensor-parallel",), TASK, lines=36, measured=False),
    "top-k": TechniquePicture(("mlp", *WORKERS, "--with", "top-k=0.01"), TASK, lines=36),
    "wire": TechniquePicture(("digits", *WORKERS, "--with", "wire=bfloat16"), TASK, lines=36),
}


@contextmanager
def running(picture: TechniquePicture) -> Iterator[Path]:
    """Start the run and give its cluster file; interrupt it when the block ends. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="tfscale-") as folder:
        # By this name of the environment no path of the machine gets into a picture.
        python = Path(folder, "tfscale", "bin", "python")
        Path(folder, "tfscale").symlink_to(sys.prefix)
        words = [*picture.words, *ENDLESS, *(("--checkpoints", f"{folder}/checkpoints") if picture.keeps else ())]
        command = [python, "-m", "tfscale.trainer.cli", "run", *words]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stderr is not None
            try:
                told = [run.stderr.readline() for _ in range(2)]
                if "tfscale-console --cluster" not in told[1]:
                    raise RuntimeError(f"tfscale-train run {' '.join(words)}: {''.join(told)}")
                yield Path(told[1].split()[-1])
            finally:
                run.send_signal(signal.SIGINT)


def has_steps(snapshot: Snapshot | None) -> bool:
    """Decide whether a task has made a step."""
    return snapshot is not None and any(view.summary is not None for view in snapshot.tasks)


async def drawn(picture: TechniquePicture, cluster: Path) -> str:
    """Return the picture as SVG. Raises TimeoutError where no step is made."""
    channels = Channels(load_cluster(cluster))
    source = LiveSource(channels)
    app = ConsoleApp(Engine(source, states(source.spec)), AgentCommands(channels))
    try:
        async with app.run_test(size=(pictures.WIDTH, picture.lines)) as pilot:
            async with asyncio.timeout(BEGUN):
                while picture.measured and not has_steps(app.cluster.snapshot):
                    await pilot.pause(0.2)
            await asyncio.sleep(picture.seconds)
            for key in picture.keys:
                await pilot.press(key)
                await asyncio.sleep(picture.pause)
            return pictures.screenshot(app)
    finally:
        await channels.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", default=pictures.ROOT / "docs" / "pictures" / "techniques"
    )
    parser.add_argument("--only", choices=PICTURES, help="one of them")
    flags = parser.parse_args()
    pictures.set_environment()
    flags.out.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        if flags.only in (None, name):
            with running(picture) as cluster:
                (flags.out / f"{name}.svg").write_text(asyncio.run(drawn(picture, cluster)))
            print(name, flush=True)


if __name__ == "__main__":
    main()
