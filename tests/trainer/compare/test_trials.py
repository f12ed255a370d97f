"""Settings as commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tfscale.core.errors import UsageError
from tfscale.trainer import cli
from tfscale.trainer.compare.axes import names_of, parse_axes, settings_of
from tfscale.trainer.compare.compare_command import trials_of
from tfscale.trainer.compare.earlier_code import earlier_code
from tfscale.trainer.compare.trials import Trial, program_trials, script_trials, variables_of


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)


def trials(*axes: str, command: tuple[str, ...] = ("python", "train.py")) -> list[Trial]:
    parsed = parse_axes(axes)
    settings = settings_of(parsed)
    return script_trials(command, parsed, dict(zip(names_of(settings, parsed), settings, strict=True)))


def test_all_values_are_combined_and_the_first_is_the_base() -> None:
    found = trials("a=1,2", "b=x,y", "c=z", command=("python", "-a{a}", "{b}{c}"))
    assert [trial.name for trial in found] == ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]
    assert found[1].command == ["python", "-a1", "yz"]


def test_other_braces_and_those_of_values_stay() -> None:
    found = trials("a=1,{b}", "b=x,y", command=("python", '{"a":1,"b":{b}}', 'f"{a}{c}"'))
    assert found[3].command == ["python", '{"a":1,"b":y}', 'f"{b}{c}"']


def test_the_code_of_a_commit_is_the_base(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    (tmp_path / "train.py").write_text("# earlier")
    (tmp_path / "data.sh").write_text("python train.py")
    (tmp_path / "data").symlink_to("/data")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "train.py").write_text("# now")
    flags = cli.parser().parse_args(["compare", "--against", "HEAD", "--set", "a=1,2"])
    with earlier_code("HEAD") as earlier:
        made = trials_of(flags, [], ["python", "train.py", "--a={a}", "{b}"], cli.planned, earlier)
        assert [trial.name for trial in made] == ["code=HEAD a=1", "code=HEAD a=2", "code=now a=1", "code=now a=2"]
        assert made[3].command == ["python", "./train.py", "--a=2", "{b}"]
        assert Path(made[0].command[1]).read_text() == "# earlier" and made[0].files != made[2].files
        assert (earlier.folder / "data").readlink() == Path("/data")
        assert subprocess.check_output([*git, "status", "--porcelain"], text=True) == " M train.py\n"
        for command in (["python", "-c", "{a}"], [], ["bash", "data.sh"]):
            with pytest.raises(UsageError, match="--against HEAD: the command names no Python file of that commit"):
                trials_of(flags, [], command, cli.planned, earlier)
    assert earlier is not None and not earlier.folder.exists()
    with pytest.raises(UsageError, match="--against nope: there is no such commit"), earlier_code("nope"):
        pass
    for name in ("now", "10k"):
        subprocess.run([*git, "tag", name], check=True)
        with pytest.raises(UsageError, match=f"--against {name}: means something else here"), earlier_code(name):
            pass
    with earlier_code("HEAD") as again:
        assert again is not None and again.identity == earlier.identity
    (tmp_path / "train.py").write_text("# now, and later")
    with earlier_code("HEAD") as later:
        assert later is not None and later.identity != earlier.identity


def test_a_folder_without_git_is_told() -> None:
    with pytest.raises(UsageError, match="--against HEAD: fatal: not a git repository"), earlier_code("HEAD"):
        pass


def test_thousands_and_values_with_commas() -> None:
    assert parse_axes(["n=1k,2.5k,1M,10ms"])[0].values == ("1000", "2500", "1000000", "10ms")
    assert parse_axes(["with=none;mixed=bfloat16,wire=bfloat16"])[0].values == ("none", "mixed=bfloat16,wire=bfloat16")


def test_the_same_value_again_is_a_setting_of_its_own() -> None:
    assert [trial.name for trial in trials("SEED=1,1,1")] == ["SEED=1", "SEED=1 #2", "SEED=1 #3"]


def test_places_and_variables_are_set_around_the_script(tmp_path: Path) -> None:
    _, found = trials("workers=none,3", "replicas=2", "threads=4", "TF_XLA_FLAGS=x", "precision=mixed_bfloat16")
    assert (found.tasks, list(found.flags)) == ({"worker": 3}, ["--replicas", "2"])
    assert trials("workers=2", "servers=1,2")[1].tasks == {"chief": 1, "worker": 2, "ps": 2}
    assert found.command == ["python", "train.py"] and found.outside == {"precision": "mixed_bfloat16"}
    variables = variables_of(found, tmp_path)
    assert (variables["TF_NUM_INTRAOP_THREADS"], variables["TF_XLA_FLAGS"]) == ("4", "x")
    assert variables["TFSCALE_SET"] == '{"precision": "mixed_bfloat16"}'


def test_a_setting_that_cannot_run_is_a_row_with_its_reason() -> None:
    axes = parse_axes(["strategy=one-device,multi-worker", "with=none;wire=bfloat16"])
    settings = settings_of(axes)
    found = program_trials("digits", ["--workers", "2"], dict(zip("abcd", settings, strict=True)), _without_workers)
    assert [bool(trial.refused) for trial in found] == [False, True, False, False]
    assert found[3].tasks == {"worker": 2} and list(found[3].command[3:7]) == [
        "--workers",
        "2",
        "--strategy",
        "multi-worker",
    ]


def _without_workers(words: list[str]) -> object:  # type: ignore[misc]
    """Read the words as the program does, without a number of workers where one device takes none."""
    alone = "one-device" in words
    return cli.planned([word for word in words if not (alone and word in ("--workers", "2"))])
