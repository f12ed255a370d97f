"""The way into an unmodified script, without TensorFlow: each script is a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tfscale.trainer.probe

SITE = Path(next(iter(tfscale.trainer.probe.__path__))) / "entry" / "site"
GIVEN = '{"cluster": {}, "task": {"type": "worker", "index": 1}}'


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SITE), **variables}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def agent(**more: str) -> dict[str, str]:
    portions = os.pathsep.join(str(Path(path)) for path in tfscale.__path__)
    return {"TFSCALE_REPORT": "/nowhere", "TFSCALE_PROBE_PATH": portions, "TFSCALE_TF_CONFIG": GIVEN, **more}


def test_without_an_agent_nothing_changes() -> None:
    script = "import os, sys; print(type(os.environ).__name__, [f for f in sys.meta_path if 'After' in repr(f)])"
    assert run(script).stdout == "_Environ []\n"


def test_the_users_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    ran = run("print('script')", **agent(PYTHONPATH=f"{SITE}{os.pathsep}{tmp_path}"))
    assert (ran.stdout, ran.stderr) == ("mine\nscript\n", "")


def test_an_installation_that_is_gone_costs_the_script_nothing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    ran = run("print('script')", **agent(PYTHONPATH=f"{SITE}{os.pathsep}{tmp_path}", TFSCALE_PROBE_PATH=str(tmp_path)))
    assert ran.stdout == "mine\nscript\n"
    assert ran.stderr.startswith("tfscale: the probe could not start") and ran.stderr.count("\n") == 1


def test_an_assigned_tf_config_stays_the_agents_with_one_warning() -> None:
    script = "import os; os.environ['TF_CONFIG'] = 'x'; os.environ['TF_CONFIG'] = 'y'; print(os.environ['TF_CONFIG'])"
    ran = run(script, **agent(TF_CONFIG=GIVEN))
    assert ran.stdout.strip() == GIVEN
    assert ran.stderr.count("tfscale:") == 1


@pytest.mark.parametrize(
    "removed",
    [
        "os.environ.clear()",
        "[os.environ.pop(name) for name in list(os.environ)]",
        "[os.unsetenv(name) or os.environ.__delitem__(name) for name in list(os.environ)]",
        "mock.patch.dict(os.environ, {'TF_CONFIG': 'x'}, clear=True).start()",
    ],
)
def test_it_stays_so_where_the_script_removes_all_variables_first(removed: str) -> None:
    script = f"""
import os
from unittest import mock
{removed}
print(sorted(os.environ))
os.environ["TF_CONFIG"] = "x"
from tfscale.trainer.probe.process.identity import Identity
print(Identity.from_environment().task, os.environ["TF_CONFIG"], os.popen("echo $TFSCALE_TASK").read(), sep="\\n")
"""
    identity = {"TFSCALE_TASK": "worker:1", "TFSCALE_GENERATION": "1", "TFSCALE_ATTEMPT": "1"}
    ran = run(script, **agent(**identity, TF_CONFIG=GIVEN))
    left, *after = ran.stdout.split("\n")[:4]
    assert left in ("[]", "['TF_CONFIG']"), ran.stderr
    assert after == ["worker:1", GIVEN, "worker:1"]
    assert ran.stderr.count("tfscale: the script assigns TF_CONFIG") == ran.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["'TF_CONFIG', 'x'", "b'TF_CONFIG', b'x'"])
def test_it_stays_so_where_the_script_sets_it_for_its_programs_alone(name: str) -> None:
    ran = run(f"import os; os.putenv({name}); os.putenv('OTHER', 'y'); os.system('echo $TF_CONFIG $OTHER')", **agent())
    assert ran.stdout.strip() == f"{GIVEN} y"


def test_an_error_is_followed_by_what_to_write() -> None:
    ran = run("import os\njson.dumps({})", **agent())
    assert ran.returncode == 1 and "NameError" in ran.stderr
    assert ran.stderr.splitlines()[-1].endswith("write 'import json' at the top")


def test_a_script_that_sigint_ends_is_seen_to_be_ended_by_it() -> None:
    script = "import os, signal; signal.signal(2, signal.default_int_handler); os.kill(os.getpid(), 2)"
    ran = run(script, **agent())
    assert ran.returncode == -2 and ran.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_it_stays_so_for_programs_that_the_script_starts() -> None:
    script = "import os; os.environ.pop('TF_CONFIG'); os.environ.update(TF_CONFIG='x'); os.system('echo $TF_CONFIG')"
    assert run(script, **agent(TF_CONFIG=GIVEN)).stdout.strip() == GIVEN


def test_the_scripts_own_tf_config_wins_where_the_agent_was_told_so() -> None:
    script = "import os; os.environ['TF_CONFIG'] = 'x'; print(os.environ['TF_CONFIG'])"
    ran = run(script, **agent(TFSCALE_TF_CONFIG="", TF_CONFIG=GIVEN))
    assert (ran.stdout, ran.stderr) == ("x\n", "")


def test_the_probe_is_importable_from_an_environment_without_tfscale() -> None:
    module = "tfscale.trainer.probe.steps.assembler"
    script = f"import sys, {module} as s; print('tensorflow' in sys.modules, bool(s.StepAssembler))"
    assert run(script, **agent()).stdout == "False True\n"


def test_a_probe_that_cannot_start_lets_the_script_go_on(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("loaded = True")
    script = "import tensorflow; print(tensorflow.loaded)"
    ran = run(script, **agent(PYTHONPATH=f"{SITE}{os.pathsep}{tmp_path}"))
    assert ran.stdout == "True\n"
    why, untold = ran.stderr.splitlines()
    assert why.startswith("tfscale: the probe could not start")
    assert untold.startswith("tfscale: the agent cannot be told of it: [Errno 2]")
