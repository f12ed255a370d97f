"""Other programs that watch a host once a second: glances and node_exporter, each where it can be had."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from loopback import free_addresses

NOT_THERE = "not there"


@contextlib.contextmanager
def peers(folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes] | None]]:
    """Run all peers until the block ends; None stands for one that is neither here nor in its registry."""
    with contextlib.ExitStack() as stack:
        yield {
            "glances": stack.enter_context(_glances(folder)),
            "node_exporter": stack.enter_context(_exporter(folder)),
        }


@contextlib.contextmanager
def _glances(folder: Path) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run glances without a screen, as it is used to export: all of its plugins are read once a second."""
    program = shutil.which("glances") or _attempt(lambda: _install_glances(folder / "glances"))
    if program is None:
        yield None
        return
    words = ["--quiet", "--time", "1", "--disable-check-update", "--export", "csv", "--export-csv-file", folder / "csv"]
    with _running([program, *words], folder / "glances.log") as process:
        yield process


def _install_glances(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "glances"], check=True, capture_output=True, timeout=300)
    return str(folder / "bin/glances")


@contextlib.contextmanager
def _exporter(folder: Path) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run node_exporter, and scrape it once a second, because it reads nothing unless it is asked."""
    known = shutil.which("node_exporter") or shutil.which("prometheus-node-exporter")
    program = known or _attempt(lambda: _unpack_exporter(folder / "exporter"))
    if program is None:
        yield None
        return
    address, is_over = next(free_addresses(1)), threading.Event()

    def scrape() -> None:
        while not is_over.wait(1.0):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as page:
                page.read()

    with _running([program, f"--web.listen-address={address}"], folder / "exporter.log") as process:
        scraper = threading.Thread(target=scrape)
        scraper.start()
        yield process
        is_over.set()
        scraper.join()


def _unpack_exporter(folder: Path) -> str:
    """Unpack Debian's package without installing it."""
    folder.mkdir()
    command = ["apt-get", "download", "prometheus-node-exporter"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    subprocess.run(["dpkg", "-x", next(folder.glob("*.deb")), folder], check=True)
    return str(folder / "usr/bin/prometheus-node-exporter")


def _attempt(install: Callable[[], str]) -> str | None:
    try:
        return install()
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        print(f"bench_agents: {error}", file=sys.stderr)
        return None


@contextlib.contextmanager
def _running(command: list[str | Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            yield process
        finally:
            process.terminate()
