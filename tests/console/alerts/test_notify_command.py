"""`tfscale-console notify`, and alerts of a console without a screen, as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from alerts.http_receiver import closed_port, receiver

SECRET = "3ccdd113474722377935511fc85d3dd4"


def console(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": "/nonexistent", **variables}
    command = [sys.executable, "-m", "tfscale.console.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_test_message_comes_to_a_slack_like_receiver_and_a_warning_about_the_process_list() -> None:
    with receiver() as service:
        done = console("notify", "--test", f"mmost://127.0.0.1:{service.port}/{SECRET}")
    assert (done.returncode, done.stdout) == (0, "--notify mmost://...: sent\n")
    assert service.got[0]["text"].startswith("tfscale can reach you")
    assert "other users see it in the list of processes" in done.stderr and SECRET not in done.stderr


def test_receivers_of_the_settings_are_listed_and_tested(tmp_path: Path) -> None:
    with receiver() as service:
        (tmp_path / "ops").write_text(f"json://127.0.0.1:{service.port}/{SECRET}\n")
        variables = {
            "TFSCALE_NOTIFY": f"@{tmp_path / 'ops'} mmost://127.0.0.1:{closed_port()}/{SECRET}",
            "TFSCALE_ON_EVENT": "cat > /dev/null",
        }
        listed, tested = console("notify", **variables), console("notify", "--test", **variables)
    assert listed.stdout == "--notify json://...\n--notify mmost://...\n--on-event 'cat > /dev/null'\n"
    assert listed.returncode == 0 and listed.stderr == ""
    first, second, third = tested.stdout.splitlines()
    assert first.endswith(": sent") and third.endswith(": sent") and "onnection error" in second
    assert second.endswith("webhook notification")
    assert tested.returncode == 1 and SECRET not in tested.stdout + tested.stderr
    assert len(service.got) == 1


def test_wrong_use_is_one_line() -> None:
    for words, said in (
        (["notify"], "no receiver is set"),
        (["notify", "--test", "nobody"], "--test: an address of a receiver begins as slack://"),
        (["notify", "--notify", "nosuch://x"], "--notify: apprise knows no such address as nosuch://..."),
        (["--headless", "--simulate", "2", "--notify", "@/nonexistent/x"], "--notify: /nonexistent/x cannot be read"),
        (["--simulate", "2", "--serve", "--notify", "@x"], "--serve: each page is a console of its own"),
    ):
        done = console(*words)
        assert done.returncode == 2 and said in done.stderr.splitlines()[-1], done.stderr


def test_a_headless_console_tells_a_slowed_worker_and_at_its_end_what_it_still_had(tmp_path: Path) -> None:
    with receiver() as service:
        (tmp_path / "ops").write_text(f"mmost://127.0.0.1:{service.port}/{SECRET}\n")
        fault = ["--fault", "worker:1=2.5x@3s"]
        done = console(
            "--simulate", "4", *fault, "--headless", "--until", "straggler", "--notify", f"@{tmp_path / 'ops'}"
        )
    assert done.returncode == 0
    (message,) = service.got
    assert (
        message["text"].startswith("worker:1 slow, 5")
        and "[simulated]\r\ncritical: worker:1 has been slow" in message["text"]
    )
