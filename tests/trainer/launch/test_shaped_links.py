"""Hosts in network namespaces: real links between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer.launch import shaped_links
from tfscale.trainer.launch.shaped_links import Link, check_links, linked_hosts, listens, parse_link

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
MEGABYTE = 1_000_000


def test_links_as_they_are_written() -> None:
    assert parse_link("200mbit") == Link(200e6) and parse_link("1.5Gbit,5ms") == Link(1.5e9, 0.005)
    assert str(parse_link("1.5Gbit,5ms")) == "1.5 Gbit/s, each packet 5.0 ms late"
    for wrong in ("200", "0mbit", "200mbit,", "mbit", "200mbit,5", "-1mbit", "200mbit,5ms,3", ""):
        with pytest.raises(ValueError, match="write for example 200mbit"):
            parse_link(wrong)


@needs_root
def test_a_host_sends_no_more_than_its_link_carries_and_reaches_the_others_alone() -> None:
    serve = (
        "import socket; s = socket.create_server(('10.77.0.1', 5000)); c = s.accept()[0]; n = 0\n"
        f"while n < {MEGABYTE}: n += len(c.recv(65536))"
    )
    send = f"import socket; socket.create_connection(('10.77.0.1', 5000)).sendall(bytes({MEGABYTE}))"
    with linked_hosts(2, Link(10e6)) as (one, two):
        assert one.address == "10.77.0.1"
        server = subprocess.Popen([*one.enter, sys.executable, "-c", serve])
        while not listens(server.pid, 5000):
            assert server.poll() is None
            time.sleep(0.01)
        assert not listens(os.getpid(), 5000)
        began = time.monotonic()
        subprocess.run([*two.enter, sys.executable, "-c", send], check=True)
        assert server.wait() == 0
        # All but the first bucket waits for its turn.
        assert time.monotonic() - began > 0.9 * 8 * (MEGABYTE - 65536) / 10e6
        outside = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
        assert subprocess.run([*two.enter, sys.executable, "-c", outside], stderr=subprocess.DEVNULL).returncode


@needs_root
def test_nothing_stays_of_the_hosts_of_a_process_that_is_killed() -> None:
    code = (
        "import sys, time\nfrom tfscale.trainer.launch.shaped_links import Link, linked_hosts\n"
        "with linked_hosts(2, Link(1e6)) as hosts:\n"
        "    print(*[host.pid for host in hosts], flush=True)\n    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pids = holder.stdout.readline().split()
        assert len(pids) == 2 and all(Path(f"/proc/{pid}").exists() for pid in pids)
        holder.kill()
    ends = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@needs_root
def test_a_delay_that_the_kernel_cannot_make_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(command: list[str], told: str = "") -> None:
        if "netem" in command:
            raise TfscaleError("tc qdisc add dev eth0 parent 1: netem: Error: Specified qdisc kind is unknown.")
        run(command, told)

    run = shaped_links._run
    monkeypatch.setattr(shaped_links, "_run", refused)
    with pytest.raises(UsageError, match=r"--link: packets cannot be made 5.0 ms late here: .* eth0 parent 1: netem"):
        check_links(Link(1e6, 0.005))
    check_links(Link(1e6))


def test_without_root_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root: call it with sudo, or without --link"):
        check_links(Link(1e6))
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="--link needs ip and tc and nsenter and unshare"):
        check_links(Link(1e6))
