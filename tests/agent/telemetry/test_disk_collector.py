"""The disk of a real folder, of a folder in memory, and of one that is gone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from tfscale.agent.telemetry.disk_collector import DiskCollector
from tfscale.core.records.host_sample import Disk

WRITTEN = 8 << 20


def first(collector: DiskCollector) -> Disk | None:
    return next(collector._samples())


def on_a_block_device(folder: Path) -> bool:
    device = folder.stat().st_dev
    names = [line.split()[:2] for line in Path("/proc/diskstats").read_text().splitlines()]
    return [str(os.major(device)), str(os.minor(device))] in names


def test_space_is_what_a_task_may_still_write() -> None:
    disk, space = first(DiskCollector(Path.cwd())), os.statvfs(Path.cwd())
    assert disk is not None
    assert disk.total == space.f_blocks * space.f_frsize
    assert disk.free == pytest.approx(space.f_bavail * space.f_frsize, abs=disk.total / 10) and disk.free < disk.total
    assert (disk.read, disk.written) == (None, None), "rates count from the previous sample"


@pytest.mark.skipif(not on_a_block_device(Path.cwd()), reason="the working folder is on no block device")
def test_what_is_written_to_the_disk_is_told() -> None:
    samples = DiskCollector(Path.cwd())._samples()
    next(samples)
    with tempfile.TemporaryFile(dir=Path.cwd()) as file:
        file.write(os.urandom(WRITTEN))
        file.flush()
        os.fsync(file.fileno())
        disk = next(samples)
    assert disk is not None and disk.written is not None and disk.read is not None
    assert disk.written > WRITTEN / 60, "8 MB within a minute"


def rates(tmp_path: Path, *moved: tuple[int, int] | None) -> list[tuple[bool, bool]]:
    """Return whether reading and writing are known after each of these sectors; None: the disk is not in the list."""
    device = tmp_path.stat().st_dev
    collector = DiskCollector(tmp_path, proc=tmp_path)
    samples, known = collector._samples(), []
    for sectors in moved:
        number = f"{os.major(device)} {os.minor(device)}" if sectors else "259 77"
        read, written = sectors or (1, 1)
        (tmp_path / "diskstats").write_text(f"7 0 loop0 0 0 0 0 0 0 0 0\n{number} x 9 9 {read} 9 9 9 {written} 9 0\n")
        disk = next(samples)
        assert disk is not None
        known.append((disk.read is not None, disk.written is not None))
    return known


def test_a_disk_whose_counters_are_not_there_has_no_rates(tmp_path: Path) -> None:
    assert rates(tmp_path, None, None) == [(False, False)] * 2
    assert rates(tmp_path, (1, 1), (2, 1), None, (3, 1), (3, 2)) == [
        (False, False), (True, True), (False, False), (False, False), (True, True),
    ]  # fmt: skip
    assert rates(tmp_path, (9, 9), (1, 1)) == [(False, False)] * 2, "another disk has got the number"


def test_a_folder_in_memory_has_space_and_no_rates() -> None:
    samples = DiskCollector(Path("/dev/shm"))._samples()
    for disk in (next(samples), next(samples)):
        assert disk is not None and disk.total > 0 and (disk.read, disk.written) == (None, None)


def test_a_folder_that_is_gone_has_no_disk_until_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    samples = DiskCollector(folder)._samples()
    assert next(samples) is None
    folder.mkdir()
    assert next(samples) is not None
