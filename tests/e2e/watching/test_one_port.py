"""A console that reaches one port alone, as through `ssh -L`: that agent relays the others."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import net_hosts
import pytest
from certificates import Issuer
from local_cluster import wait_until
from loopback import free_addresses
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.cluster_spec import Tls

_WORKERS = 3


_FORWARDS = """
import asyncio, sys

async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()

async def accept(reader, writer):
    there = await asyncio.open_connection(*sys.argv[1].rsplit(":", 1))
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

async def main():
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
"""Program that leads a port of this machine to an address, as `ssh -L` does."""


@contextlib.contextmanager
def forwarded(address: str) -> Iterator[str]:
    """Yield an address of this machine that leads to another, until the block ends."""
    command = [sys.executable, "-c", _FORWARDS, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}"
        process.kill()


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "tls")


@pytest.fixture
def port(tmp_path: Path, issuer: Issuer) -> Iterator[str]:
    """Yield the forwarded port of the first of some agents, whose certificate names `localhost` alone."""
    addresses = [address.replace("127.0.0.1", "localhost") for address in free_addresses(2 * _WORKERS)]
    tasks, agents = addresses[:_WORKERS], addresses[_WORKERS:]
    tls = issuer.tls("host", hosts=["localhost"])
    document = {
        "cluster": {"worker": tasks},
        "agents": {f"worker:{index}": address for index, address in enumerate(agents)},
        "tls": {"ca": str(tls.ca), "certificate": str(tls.certificate), "key": str(tls.key)},
    }
    (tmp_path / "job.json").write_text(json.dumps(document))
    words = [sys.executable, "-m", "tfscale.agent.cli", "--cluster", tmp_path / "job.json", "--state-dir", tmp_path]
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen([*words, "--grace", "2", "--", *program], stderr=subprocess.DEVNULL)
    try:
        with forwarded(agents[0]) as address:
            yield address
    finally:
        process.terminate()
        process.wait(20)


def console(port: str, tls: Tls, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfscale.console.cli", *words, "--agent", port]
    command += ["--ca", str(tls.ca), "--certificate", str(tls.certificate), "--key", str(tls.key)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_all_tasks_are_seen_through_one_forwarded_port(port: str, issuer: Issuer) -> None:
    eve = issuer.tls("eve", CallerRole.OBSERVER, [])
    seen: list[dict[str, str]] = []

    def is_seen() -> bool:
        done = console(port, eve, "--once")
        tasks = json.loads(done.stdout)["tasks"] if done.stdout else []
        seen[:] = [{"name": task["task"], **task["link"], "state": str(task["status"])} for task in tasks]
        return [each["name"] for each in seen] == [f"worker:{index}" for index in range(_WORKERS)]

    wait_until(is_seen, 30)
    assert {each["reason"] for each in seen} == {f"through {port}"}, seen
    ann = issuer.tls("ann", CallerRole.OPERATOR, [])
    stopped = console(port, ann, "stop", "worker:2", "--yes")
    assert stopped.returncode == 0, stopped.stderr
    refused = console(port, eve, "start", "worker:2", "--yes")
    assert (refused.returncode, "eve (observer)" in refused.stderr) == (1, True), refused
    stranger = console(port, issuer.without_role("old"), "log", "worker:1")
    assert "needs the role observer, and the certificate is that of old (no role)" in stranger.stderr


@pytest.mark.slow
def test_an_agent_of_another_cluster_is_told_although_there_is_a_relay(tmp_path: Path) -> None:
    addresses = list(free_addresses(6))
    tasks, others, agents = addresses[:2], addresses[2:4], addresses[4:]
    named = {f"worker:{index}": address for index, address in enumerate(agents)}
    for name, workers in (("own", tasks), ("other", others)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"cluster": {"worker": workers}, "agents": named}))
    started = []
    for name, task in (("own", "worker:0"), ("other", "worker:1")):
        words = ["--cluster", tmp_path / f"{name}.json", "--task", task, "--state-dir", tmp_path / name]
        command = [sys.executable, "-m", "tfscale.agent.cli", *words, "--insecure-loopback", "--grace", "1"]
        started.append(subprocess.Popen([*command, "--", "sleep", "600"], stderr=subprocess.DEVNULL))
    try:
        links: dict[str, dict[str, str]] = {}

        def is_told() -> bool:
            command = [sys.executable, "-m", "tfscale.console.cli", "--once", "--cluster", tmp_path / "own.json"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            links.update({task["task"]: task["link"] for task in json.loads(done.stdout or '{"tasks": []}')["tasks"]})
            return {name: link["state"] for name, link in links.items()} == {"worker:0": "up", "worker:1": "refused"}

        wait_until(is_told, 30)
    finally:
        for agent in started:
            agent.terminate()
            agent.wait(20)


class Hosts:
    """Cluster whose tasks are spread over hosts that are network namespaces; the console has the first host."""

    def __init__(self, folder: Path, tasks: Sequence[int]) -> None:
        self._folder, self._tasks = folder, tasks
        self.file = folder / "cluster.json"
        self.names = [f"worker:{index}" for index in range(sum(tasks))]
        self._places = [(host, slot) for host, number in enumerate(tasks, 1) for slot in range(number)]
        workers = [f"{net_hosts.address(host)}:{2222 + slot}" for host, slot in self._places]
        agents = {f"worker:{i}": f"{net_hosts.address(h)}:{7070 + slot}" for i, (h, slot) in enumerate(self._places)}
        self.file.write_text(json.dumps({"cluster": {"worker": workers}, "agents": agents}))
        self.agents = {host: self._start(host) for host in range(1, len(tasks) + 1)}

    def _start(self, host: int) -> subprocess.Popen[bytes]:
        words = ["--cluster", str(self.file), "--state-dir", str(self._folder), "--grace", "1", "--insecure"]
        for name, (place, _) in zip(self.names, self._places, strict=True):
            words += ["--task", name] if place == host else []
        command = [*net_hosts.inside(host), sys.executable, "-m", "tfscale.agent.cli", *words, "--", "sleep", "600"]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def end(self) -> None:
        for agent in self.agents.values():
            agent.terminate()
        for agent in self.agents.values():
            agent.wait(30)

    def console(self, *words: str) -> list[str]:
        return [*net_hosts.inside(0), sys.executable, "-m", "tfscale.console.cli", *words, "--insecure"]

    def once(self, *words: str) -> dict[str, dict[str, str]]:
        """Return the links of the tasks, as a snapshot for a script has them."""
        command = self.console("--once", *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        print(done.stderr[-2000:], done.returncode)
        return {task["task"]: task["link"] for task in json.loads(done.stdout or '{"tasks": []}')["tasks"]}


@contextlib.contextmanager
def on_hosts(folder: Path, *tasks: int) -> Iterator[Hosts]:
    with net_hosts.hosts(1 + len(tasks)):
        hosts = Hosts(folder, tasks)
        try:
            yield hosts
        finally:
            hosts.end()


@pytest.mark.slow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_64_tasks_are_seen_by_a_console_that_reaches_one_host(tmp_path: Path) -> None:
    with on_hosts(tmp_path, 2, 31, 31) as hosts:
        for other in (2, 3):
            net_hosts.cut(0, other)
        entry = f"{net_hosts.address(1)}:7070"
        links: list[dict[str, dict[str, str]]] = []

        def are_all_seen() -> bool:
            begin = time.monotonic()
            links.append(hosts.once("--agent", entry))
            print(f"--once: {time.monotonic() - begin:.1f} s, {len(links[-1])} tasks")
            return [*links[-1]] == hosts.names and all(link["state"] == "up" for link in links[-1].values())

        wait_until(are_all_seen, 60)
        ways = Counter(link["reason"] for link in links[-1].values())
        assert ways == {f"through {entry}": 62, "": 2}
        doctor = subprocess.run(
            hosts.console("doctor", "--agent", entry), capture_output=True, text=True, timeout=120, check=False
        )
        rows = [line for line in doctor.stdout.splitlines() if line.startswith("worker:")]
        assert (len(rows), sum(f"through {entry}" in row for row in rows)) == (64, 62), doctor.stdout[:3000]


@pytest.mark.slow
@pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())
def test_a_relay_that_dies_is_replaced_by_another(tmp_path: Path) -> None:
    """The console has the cluster file: it dials three hosts and reaches two, one of which then dies."""
    with on_hosts(tmp_path, 1, 1, 1) as hosts:
        net_hosts.cut(0, 3)
        out = tmp_path / "run.jsonl"
        words = ["--headless", "--cluster", str(hosts.file), "--out", str(out)]
        console = subprocess.Popen(hosts.console(*words), stderr=subprocess.DEVNULL)

        def link(task: str) -> dict[str, str]:
            lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
            return next((each for each in reversed(lines) if each["type"] == "link" and each["task"] == task), {})

        try:
            wait_until(lambda: link("worker:2").get("state") == "up", 30)
            first = link("worker:2")["reason"]
            assert first in ("through worker:0", "through worker:1")
            relay, other = (1, "worker:1") if first.endswith(":0") else (2, "worker:0")
            hosts.agents[relay].kill()
            begin = time.monotonic()
            wait_until(lambda: link("worker:2").get("reason") == f"through {other}", 30)
            assert time.monotonic() - begin < 15 and link("worker:2")["state"] == "up"
            print(f"replaced in {time.monotonic() - begin:.1f} s")
        finally:
            console.terminate()
            console.wait(20)
