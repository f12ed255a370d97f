import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tfscale.agent.cli import main, read_settings
from tfscale.core.errors import UsageError
from tfscale.core.version import version_line

CLUSTER = """
[cluster]
worker = ["127.0.0.1:2222", "127.0.0.1:2223"]
evaluator = ["127.0.0.1:2224"]
[agents]
"worker:0" = "127.0.0.1:7070"
"worker:1" = "127.0.0.1:7071"
"evaluator:0" = "127.0.0.1:7072"
[program]
command = ["python", "default.py"]
"""
TF_CONFIG = '{"cluster": {"chief": ["10.0.0.1:1"], "worker": ["127.0.0.1:2"]}, "task": {"type": "worker", "index": 0}}'


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "digits.toml"
    path.write_text(CLUSTER)
    return str(path)


def test_flags_make_settings(cluster: str) -> None:
    flags = ["--role", "worker", "--index", "1", "--cluster", cluster, "--listen", "127.0.0.1:9", "--grace", "2.5"]
    (settings,) = read_settings(
        [*flags, "--log-size", "8M", "--history", "30", "--exit-with-task", "--", "python", "train.py", "--", "x"], {}
    )
    assert (str(settings.task), str(settings.listen), settings.grace) == ("worker:1", "127.0.0.1:9", 2.5)
    assert settings.command == ("python", "train.py", "--", "x")
    assert (settings.log_size, settings.exit_with_task, settings.restart) == (8 << 20, True, False)
    assert (settings.run, settings.history) == ("digits", 30)
    run = f"digits-{settings.identity.fingerprint}"
    assert settings.files.log == Path(os.environ["XDG_STATE_HOME"]) / "tfscale" / run / "worker-1.log"


def test_without_a_command_the_cluster_files_program_runs(cluster: str) -> None:
    assert read_settings(["--role=worker", "--index=0", "--cluster", cluster], {})[0].command == (
        "python",
        "default.py",
    )


def test_a_tf_config_names_cluster_and_task() -> None:
    (settings,) = read_settings(["--insecure", "--", "true"], {"TF_CONFIG": TF_CONFIG})
    assert (str(settings.task), settings.leads) == ("worker:0", False)
    assert (
        str(read_settings(["--role=chief", "--insecure", "--", "true"], {"TF_CONFIG": TF_CONFIG})[0].task) == "chief:0"
    )


def test_flags_beat_variables_beat_the_configuration_file(cluster: str) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "tfscale" / "config.toml"
    config.parent.mkdir()
    config.write_text("[agent]\ngrace = 1\nrun = 'config'\nlog-keep = 9\n")
    variables = {"TFSCALE_GRACE": "2", "TFSCALE_RUN": "variable", "TFSCALE_ROLE": "worker", "TFSCALE_INDEX": "1"}
    (settings,) = read_settings(["--cluster", cluster, "--grace", "3", "--index", "0"], variables)
    assert (settings.grace, settings.run, settings.log_keep, str(settings.task)) == (3, "variable", 9, "worker:0")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--role=worker", "--index=7"], "worker:7: the cluster has no such task, only worker:0, worker:1"),
        (["--role=banana", "--index=0"], "unknown role 'banana'"),
        (["--role=worker"], "no index: give --index"),
        (["--index=0"], "no role: give --role beside --index, or --task, as in"),
        (["--task=worker:0", "--role=worker"], "--task and --role: give the tasks in one way, as in"),
        (["--task=worker:0", "--task=ps:0"], "ps:0: the cluster has no such task, only worker:0, worker:1"),
        (["--task=worker"], "--task: 'worker' is not a task: write role:index"),
        (
            ["--task=worker:0", "--task=worker:1", "--listen=127.0.0.1:9"],
            "--listen 127.0.0.1:9: one address for 2 tasks",
        ),
        (["--listen=127.0.0.1:9"], "one address for 3 tasks (worker:0, worker:1, evaluator:0)"),
        (["--role=worker", "--index=0", "--listen=nowhere"], "is not host:port"),
        (
            ["--role=evaluator", "--listen=10.0.0.9:7070"],
            "is not a loopback address: give [tls] in the cluster file, or --insecure",
        ),
        (["--role=worker", "--index=0", "--run=a/b"], "name must be letters"),
    ],
)
def test_a_mistake_is_one_clear_line_and_status_2(
    cluster: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cluster", cluster, *flags]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--grace=soon", "--grace: 'soon' is not a number from 0 on"),
        ("--index=one", "--index: 'one' is not a whole number"),
        ("--log-size=64X", "--log-size: '64X' is not a size"),
        ("--log-size=4kB", "--log-size: '4kB' is too small: it must be at least 4096 bytes"),
        ("--role=banana", "--role: unknown role 'banana'"),
        ("--run=a/b", "--run: name must be letters, digits, '_', and after the first also '.' and '-', not 'a/b'"),
        ("--run=-x", "not '-x'"),
        ("--run=a\n\x1b[2J", r"not 'a\n\x1b[2J'"),
        ("--nonsense", "--help shows how"),
    ],
)
def test_a_wrong_flag_is_named_in_one_line(
    cluster: str, flag: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cluster", cluster, flag]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("grace = -1", "config.toml: grace: '-1' is not a number from 0 on"),
        ("log-size = '3'", "config.toml: log-size: '3' is too small"),
        ("graze = 1", r"config.toml: \[agent\] has no key 'graze'"),
    ],
)
def test_a_wrong_line_of_the_configuration_file_is_named(cluster: str, table: str, words: str) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "tfscale" / "config.toml"
    config.parent.mkdir()
    config.write_text(f"[agent]\n{table}\n")
    with pytest.raises(UsageError, match=words):
        read_settings(["--cluster", cluster, "--role=worker", "--index=0"], {})


@pytest.mark.parametrize("name", ["GRACE=soon", "INDEX=one", "INSECURE=maybe", "LOG_SIZE=3"])
def test_a_wrong_variable_is_named(cluster: str, name: str) -> None:
    key, _, value = f"TFSCALE_{name}".partition("=")
    with pytest.raises(UsageError, match=key):
        read_settings(["--cluster", cluster, "--role=worker", "--index=0"], {key: value})


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, without a TF_CONFIG."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("nowhere")
def test_a_task_of_no_cluster_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--role=worker", "--index=0", "--", "true"]) == 2
    error = capsys.readouterr().err
    assert "--role and --index for a task of a cluster, but there is no TF_CONFIG" in error
    assert "leave out --role and --index to run the program alone" in error and error.count("\n") == 1


@pytest.mark.usefixtures("nowhere")
def test_without_a_cluster_the_program_runs_alone() -> None:
    (settings,) = read_settings(["--", "python", "train.py"], {})
    assert settings.cluster.is_alone and settings.leads and settings.listen.is_loopback
    assert settings.exit_with_task and settings.show_output and settings.log_level == "warning"
    assert settings.run.startswith("train-") and settings.run == read_settings(["--", "python", "train.py"], {})[0].run
    assert not read_settings(["--no-exit-with-task", "--", "true"], {})[0].exit_with_task
    assert read_settings(["--run", "mine", "--", "true"], {})[0].cluster.name == "mine"


@pytest.mark.parametrize("place", [Path(), Path("config/tfscale")])
def test_a_cluster_file_is_found_here_and_in_the_configuration_folder(nowhere: Path, place: Path) -> None:
    (nowhere / place).mkdir(parents=True, exist_ok=True)
    (nowhere / place / "cluster.toml").write_text(CLUSTER)
    environment = {"XDG_CONFIG_HOME": str(nowhere / "config")}
    (settings,) = read_settings(["--role", "worker", "--index", "1"], environment)
    assert str(settings.task) == "worker:1" and settings.command == ("python", "default.py")
    assert settings.cluster_file is not None and settings.cluster_file.name == "cluster.toml"
    assert not settings.exit_with_task and not settings.show_output
    with pytest.raises(UsageError, match=r"no role: give --role .* as in .*cluster\.toml: it has worker:0, worker:1"):
        read_settings(["--index=0"], environment)


def test_a_tf_config_stands_before_a_file_that_lies_about(nowhere: Path) -> None:
    (nowhere / "cluster.toml").write_text(CLUSTER)
    (settings,) = read_settings(["--insecure", "--", "true"], {"TF_CONFIG": TF_CONFIG})
    assert settings.cluster.name == "tf-config" and settings.cluster_file is None


def test_no_program_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", TF_CONFIG)
    assert main(["--insecure"]) == 2
    assert "no program: give it after --" in capsys.readouterr().err


def test_an_agent_that_must_be_dialled_beyond_loopback_needs_tls_too() -> None:
    with pytest.raises(UsageError, match=r"10\.0\.0\.1:7070 is not a loopback address"):
        read_settings(["--", "true"], {"TF_CONFIG": TF_CONFIG})


def test_insecure_allows_an_address_beyond_loopback(cluster: str) -> None:
    assert read_settings(["--cluster", cluster, "--role=evaluator", "--listen=10.0.0.9:7070", "--insecure"], {})[
        0
    ].insecure


@pytest.mark.usefixtures("source_roots")
def test_the_agent_loads_neither_numpy_nor_what_belongs_to_others() -> None:
    code = "import sys, tfscale.agent.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"numpy", "textual", "tensorflow", "tfscale.trainer", "tfscale.console"}


@pytest.mark.usefixtures("source_roots")
def test_sigterm_drains_and_a_second_agent_is_refused(cluster: str, tmp_path: Path) -> None:
    program = "import time; print('up', flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "tfscale.agent.cli", "--cluster", cluster, "--role=worker", "--index=0"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        command += [f"--listen=127.0.0.1:{free.getsockname()[1]}"]
    command += ["--state-dir", str(tmp_path), "--", sys.executable, "-c", program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent:
        assert agent.stderr is not None
        while "serving" not in (line := agent.stderr.readline()):
            assert line
        second = subprocess.run(command, capture_output=True, text=True)
        agent.terminate()
        agent.stderr.read()
        assert agent.wait(60) == 0
    assert second.returncode == 1
    assert f"has an agent with pid {agent.pid} already" in second.stderr
    assert second.stderr.count("\n") == 1


@pytest.mark.usefixtures("source_roots")
def test_a_busy_port_is_one_clear_line(cluster: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        command = [sys.executable, "-m", "tfscale.agent.cli", "--cluster", cluster, "--role=worker", "--index=0"]
        command += [f"--listen=127.0.0.1:{busy.getsockname()[1]}", "--state-dir", str(tmp_path), "--", "true"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "(Address already in use): give another address with --listen" in done.stderr


def test_a_spare_is_named_by_its_address_and_holds_no_task(tmp_path: Path) -> None:
    path = tmp_path / "digits.toml"
    path.write_text(f'{CLUSTER}\n[spares]\nagents = ["127.0.0.1:7079"]\ntasks = ["127.0.0.1:2229"]\n')
    flags = ["--cluster", str(path), "--", "true"]
    (settings,) = read_settings(["--spare", "127.0.0.1:7079", *flags], {})
    assert settings.is_spare and settings.listen == settings.seat
    assert settings.files.folder.name == "seat-127.0.0.1-7079"
    (worker,) = read_settings(["--role=worker", "--index=1", *flags], {})
    assert not worker.is_spare and str(worker.seat) == "127.0.0.1:7071"
    assert worker.files.folder == settings.files.folder.parent
    with pytest.raises(UsageError, match=r"\[spares\] of the cluster file has 127\.0\.0\.1:7079"):
        read_settings(["--spare", "127.0.0.1:7071", *flags], {})
    with pytest.raises(UsageError, match="--role: a spare holds no task"):
        read_settings(["--spare", "127.0.0.1:7079", "--role", "worker", *flags], {})


def test_all_tasks_of_this_host_are_run_or_those_that_are_named(cluster: str) -> None:
    here = read_settings(["--cluster", cluster], {})
    assert [str(each.task) for each in here] == ["worker:0", "worker:1", "evaluator:0"]
    assert [str(each.listen) for each in here] == ["127.0.0.1:7070", "127.0.0.1:7071", "127.0.0.1:7072"]
    named = ["--task", "evaluator:0", "--task", "worker:0", "--task", "worker:0"]
    two = read_settings([*named, "--cluster", cluster], {})
    assert [str(each.task) for each in two] == ["worker:0", "evaluator:0"]
    assert two == read_settings(["--cluster", cluster], {"TFSCALE_TASK": "worker:0 evaluator:0"})
    (one,) = read_settings(["--task", "worker:1", "--cluster", cluster], {})
    assert (one,) == read_settings(["--role=worker", "--index=1", "--cluster", cluster], {})


def test_the_name_of_the_task_around_an_agent_is_none_of_its_own_flags(cluster: str) -> None:
    around = {"TFSCALE_TASK": "ps:7", "TFSCALE_REPORT": "/run/x.sock"}
    (alone,) = read_settings(["--", "true"], around)
    assert alone.cluster.is_alone
    assert len(read_settings(["--cluster", cluster], around)) == 3


def test_where_no_address_is_this_hosts_a_task_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "far.toml"
    path.write_text('[cluster]\nworker = ["198.51.100.1:2222", "198.51.100.2:2222"]\n[program]\ncommand = ["true"]\n')
    flags = ["--cluster", str(path), "--insecure"]
    name = socket.gethostname()
    with pytest.raises(
        UsageError, match=f"no task of this host: it is called {name}, .* give --task, as in .*far.toml"
    ):
        read_settings(flags, {})
    (named,) = read_settings([*flags, "--task", "worker:1"], {})
    assert str(named.listen) == "198.51.100.2:7070"


def test_tasks_stay_where_no_other_agent_may_hold_them(cluster: str) -> None:
    assert read_settings(["--role=worker", "--index=0", "--cluster", cluster], {})[0].seat is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["python", "train.py"], "there is no command 'python': give a program after --, as in -- python train.py"),
        (["--role=worker", "certificates"], "certificates comes first, as in tfscale-agent certificates --help"),
    ],
)
def test_a_word_that_is_neither_flag_nor_program_is_refused(words: list[str], error: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(error)}$"):
        read_settings(words, {})


@pytest.mark.parametrize("program", ["agent", "console", "train"])
def test_a_program_tells_its_version_and_its_commands(program: str) -> None:
    script = Path(sys.executable).with_name(f"tfscale-{program}")
    said, shown = (subprocess.run([script, flag], capture_output=True, text=True) for flag in ("--version", "--help"))
    assert (said.returncode, said.stdout) == (0, f"{version_line()}\n")
    assert shown.returncode == 0 and "COMMAND" in shown.stdout and "--version" in shown.stdout
