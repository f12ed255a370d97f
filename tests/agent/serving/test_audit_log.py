"""The file of orders: its size, its lines, and a disk that does not take them."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from pathlib import Path

from tfscale.agent.serving.audit_log import AuditLog


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_large_file_becomes_the_older_one(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "a.jsonl", largest=1000)
    for number in range(40):
        log.begin("ann (operator)", "ipv4:10.0.0.2:1", "Restart", [f"worker:{number}"], "").write("done")
        await asyncio.sleep(0)
    await log.close()
    older = lines(tmp_path / "a.jsonl.1")
    assert lines(tmp_path / "a.jsonl")[-1]["tasks"] == ["worker:39"] and older
    found = [entry.stat() for entry in os.scandir(tmp_path)]
    assert len(found) == 2 and all(status.st_size <= 1000 for status in found)
    assert all(status.st_mode & 0o777 == 0o600 for status in found)


async def test_text_of_others_is_cut_and_printable(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "a.jsonl")
    tasks = ["\x1b[2Jworker:1\n", *["worker:2"] * 1_000_000]
    log.begin("eve\r", "ipv4:1", "Restart", tasks, "r" * 3_000_000).write("refused: \x07no")
    await log.close()
    text = (tmp_path / "a.jsonl").read_text()
    (entry,) = lines(tmp_path / "a.jsonl")
    assert len(text) < 2000 and text.count("\n") == 1 and text.strip().isprintable() and "\\u001b" not in text
    assert entry["tasks"][0] == "worker:1 " and entry["tasks"][-1] == "999981 others"


async def test_a_flood_of_refused_orders_does_not_drive_out_the_others(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "a.jsonl")
    for _ in range(1000):
        log.begin("loopback", "ipv4:1", "Restart", [], "").write("refused: no")
    log.begin("ann (operator)", "ipv4:2", "Stop", ["worker:0"], "").write("done")
    await log.close()
    entries = lines(tmp_path / "a.jsonl")
    assert len(entries) == 21 and (entries[-1]["who"], entries[-1]["unwritten"]) == ("ann (operator)", 980)


async def test_a_disk_that_hangs_holds_up_nobody_and_what_is_missing_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    os.mkfifo(path)  # to open it takes until somebody reads
    log = AuditLog(path, patience=0.2)
    begin = asyncio.get_running_loop().time()
    log.begin("ann", "ipv4:1", "Stop", [], "").write("asked")
    assert asyncio.get_running_loop().time() - begin < 0.1
    await log.close()
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    await asyncio.sleep(0.2)
    path.unlink()
    log.begin("ann", "ipv4:1", "Stop", [], "").write("done")
    await log.close()
    os.close(reader)
    (entry,) = lines(path)
    assert (entry["result"], entry["unwritten"]) == ("done", 1)


async def test_a_full_disk_has_whole_lines_and_the_missing_ones_are_counted(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "a.jsonl")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for number in range(20):
            log.begin("ann (operator)", "ipv4:10.0.0.2:1", "Restart", [f"worker:{number}"], "").write("done")
            await log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = len(lines(tmp_path / "a.jsonl"))
    assert 0 < kept < 20
    log.begin("ann (operator)", "ipv4:10.0.0.2:1", "Stop", [], "").write("done")
    await log.close()
    assert lines(tmp_path / "a.jsonl")[-1]["unwritten"] == 20 - kept
