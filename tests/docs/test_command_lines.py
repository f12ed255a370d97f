"""Command lines on the pages: each is one that its program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfscale.agent import cli as agent
from tfscale.agent import probe_install
from tfscale.agent.certificates import certificate_command
from tfscale.console import command_table as console
from tfscale.console.settings import command_line
from tfscale.console.settings.config import configure
from tfscale.core.settings.precedence import choose, split_command
from tfscale.trainer import cli as train
from tfscale.trainer.batch import batch_command
from tfscale.trainer.compare import compare_command
from tfscale.trainer.compare.earlier_code import EarlierCode
from tfscale.trainer.scale import scale_command, scale_flags

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPED = re.compile(r"^(?: {4,}|\$ )(?:[A-Z_]+=\S+ |\S+/)*(tfscale-(?:agent|console|train)(?!\S).*)$", re.MULTILINE)
"""Line that is set as code, or follows a prompt."""
OWN_MODEL = ROOT / "docs/how-to/train.md"
"""Page with the code of the file that pages call `my_model.py`, its only Python."""
PLACEHOLDER = re.compile(r"\.\.\.|---|\bCOMMAND\b")


def command_lines(page: Path) -> Iterator[str]:
    """Yield the commands of a page as one types them, without what follows a pipe."""
    text = re.sub(r" *\\\n *", " ", page.read_text(encoding="utf-8"))
    for command in TYPED.findall(text):
        if not PLACEHOLDER.search(command):
            yield command.partition(" | ")[0]


def has_commands(page: Path) -> bool:
    return any(command_lines(page))


def read(words: list[str]) -> None:
    """Read a command line as its program does, up to the point at which a cluster or a file would be needed."""
    program, *given = words
    if program == "tfscale-console" or given[:1] == ["advise"]:
        invocation = command_line.parse(console.WATCH, console.COMMANDS, given, {})
        if invocation.command.name not in ("compare", "report"):
            configure(invocation)
    elif program == "tfscale-train":
        read_training(given)
    elif given[:1] == ["install-probe"]:
        probe_install._parser().parse_args(given[1:])
    elif given[:1] == ["certificates"]:
        certificate_command._parser().parse_args(given[1:])
    else:
        flags, command = split_command([word for word in given if word != "hand-over"])
        choose(agent.OPTIONS, "agent", vars(agent.parser().parse_args(flags)), {})
        if command[:1] == ["tfscale-train"]:
            read(command)


def read_training(words: list[str]) -> None:
    own = train._own_main(words[1:2])
    if own is not None:
        train.check_own(own, words[2:], train.own_tasks(own, words[2:], None))
        return
    if words[:1] == ["compare"]:
        flags, command = split_command(words)
        parsed, rest = train.parser().parse_known_args(flags)
        earlier = EarlierCode(parsed.against, "", Path()) if parsed.against else None
        compare_command.trials_of(parsed, rest, command, train.planned, earlier)
        return
    if words[:1] == ["batch"]:
        own, command = split_command(words)
        flags, run_words = train.parser().parse_known_args(own)
        batch_command.trial_of(flags, run_words, command, train.planned)(flags.start)
        return
    if words[:1] == ["scale"]:
        flags, command = split_command(words)
        verb, rest = scale_flags.take_verb(flags[1:])
        scale_command.request(verb, *train.parser().parse_known_args(["scale", *rest]), command, train.planned)
        return
    given = vars(train.parser().parse_args(words))
    if given["command"] == "run":
        train.check_parts(train.make_plan(given, {}))


@pytest.mark.parametrize("page", filter(has_commands, PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_programs_take_the_command_lines_of_a_page(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", OWN_MODEL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    Path("my_model.py").write_text(code)
    Path("train.py").touch()
    wrong = {}
    for command in command_lines(page):
        try:
            read(shlex.split(command, comments=True))
        except BaseException as error:
            wrong[command] = repr(error)
    assert wrong == {}
