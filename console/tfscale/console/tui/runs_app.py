"""List of this machine's runs, each with its headline, from which the operator chooses one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from tfscale.console.tui.watched_run import WatchedRun
from tfscale.console.tui.widgets.appearance.theme import PALETTES, Appearance, theme
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_metrics import figures_of
from tfscale.console.tui.widgets.panes.headline_pane import headline
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.text import duration, plural

_EVERY = 1.0
"""Seconds between two looks at which runs there are, and at what is known of each."""
_FIGURES = 2
"""Figures of a run's first line."""


class RunsApp(App[LocalAgent]):
    """List of runs, two lines each; the result is an agent of the chosen run, None where the operator leaves."""

    TITLE = "tfscale"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    RunsApp Static { height: auto; padding: 0 0 1 1; }
    RunsApp KeyBar { height: 1; padding: 0 0 0 1; }
    RunsApp OptionList { height: 1fr; border: none; padding: 0; background: $background; }
    RunsApp OptionList > .option-list--option { padding: 0 1 1 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move('down')", "the next run", show=False),
        Binding("k", "move('up')", "the run before", show=False),
        Binding("q,escape", "quit", "quit", show=False),
    ]

    def __init__(
        self,
        runs: Callable[[], Sequence[LocalAgent]],
        watch: Callable[[LocalAgent], WatchedRun],
        look: Appearance,
        shown: LocalAgent | None = None,
    ) -> None:
        """List what `runs` returns, each as `watch` watches it; the cursor is on the run of `shown` at first."""
        super().__init__()
        self._runs, self._watch, self._look, self._shown = runs, watch, look, shown and shown.run_key
        self._watched: dict[tuple[str, str], WatchedRun] = {}
        self._jobs: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._list = OptionList()
        self._title = Static()
        name = next(name for name, palette in PALETTES.items() if palette is look.palette)
        self.register_theme(theme(name))
        self.theme = name

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._list
        keys = KeyBar((("enter", "show the run"), ("j k", "move"), ("q", "quit")))
        keys.appearance = self._look
        yield keys

    def on_mount(self) -> None:
        self._update()
        if self._shown in self._watched:
            self._list.highlighted = list(self._watched).index(self._shown)
        self.set_interval(_EVERY, self._update)

    def on_resize(self) -> None:
        self._update()

    async def on_unmount(self) -> None:
        for job in self._jobs.values():
            job.cancel()
        await asyncio.gather(*self._jobs.values(), return_exceptions=True)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.exit(list(self._watched.values())[event.option_index].agent)

    def action_move(self, to: str) -> None:
        if to == "down":
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()

    def _update(self) -> None:
        present = {agent.run_key: agent for agent in self._runs()}
        for gone in self._watched.keys() - present.keys():
            self._jobs.pop(gone).cancel()
            del self._watched[gone]
        for key, agent in present.items():
            if key not in self._watched:
                self._watched[key] = self._watch(agent)
                self._jobs[key] = asyncio.create_task(self._watched[key].run())
        self._draw()

    def _draw(self) -> None:
        runs = list(self._watched.values())
        title = Text("tfscale   ", style=f"bold {self._look.palette.text}")
        self._title.update(title.append(f"{plural(len(runs), 'run')} on this machine", style=self._look.palette.dim))
        prompts = [_lines(run, self._look, max(20, self.size.width - 4)) for run in runs]
        if len(prompts) != self._list.option_count:
            at = self._list.highlighted or 0
            self._list.clear_options()
            self._list.add_options(map(Option, prompts))
            self._list.highlighted = min(at, len(prompts) - 1) if prompts else None
        else:
            for index, prompt in enumerate(prompts):
                self._list.replace_option_prompt_at_index(index, prompt)


def _lines(run: WatchedRun, look: Appearance, width: int) -> Text:
    """Return the run's name, figures, age and program, and below them its headline."""
    palette, snapshot = look.palette, run.snapshot
    severity, sentence = ("warning", run.problem) if run.problem else ("info", "asking its agents")
    figures = []
    if snapshot is not None:
        severity, sentence = headline(snapshot)
        sentence = snapshot.moment + sentence
        figures = [f"{snapshot.up}/{len(snapshot.tasks)} up"]
        figures += [f"{figure.value} {figure.name}" for figure in figures_of(snapshot)[:_FIGURES]]
    figures.append(f"agent up for {duration(time.time() - run.agent.started)}")
    first = Text.assemble(
        (f"{look.sign(severity)} ", look.severity(severity)),
        (f"{run.agent.run}   ", f"bold {palette.text}"),
        ("   ".join([*figures, " ".join(run.agent.command)]), palette.dim),
    )
    second = Text(f"  {sentence}", style=look.severity(severity))
    for line in (first, second):
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join([first, second, Text()])
