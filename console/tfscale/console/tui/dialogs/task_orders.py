"""Commands of the operator to tasks: the question before, the command itself, and its progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from textual.app import App
from tfscale.console.engine.checkpoint_age import (
    RISK,
    age_of_trainings,
    checkpoint_age,
    profile_refusal,
    untrained_since,
)
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import CommandProgressed, LinkState
from tfscale.console.engine.model import Snapshot
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import PROFILE_SECONDS, Commands
from tfscale.console.transport.fetched_profile import fetch_profile, profile_folder
from tfscale.console.tui.dialogs.confirm import ConfirmScreen, Question, cost
from tfscale.console.tui.dialogs.prompt import PromptScreen
from tfscale.console.tui.dialogs.stack_screen import StackScreen
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.orders import Order, Subject
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.placement.placement import may_move
from tfscale.core.cluster.restart import keeps_training, plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_files import TaskFiles
from tfscale.core.records.task_status import Stage
from tfscale.core.text import data_size

_AT_ONCE = 32
"""Tasks that are asked for their stacks at once."""


class Orders:
    """Sender of every command of the console to tasks."""

    def __init__(
        self, app: App[Any], engine: Engine, commands: Commands, recorded: Callable[[], Path | None] = lambda: None
    ) -> None:
        """Send commands; profiles are fetched beside the file that is `recorded`, if any."""
        self._app = app
        self._recorded = recorded
        self._engine = engine
        self._commands = commands

    def offers(self, order: Order, tasks: tuple[Task, ...], snapshot: Snapshot | None) -> bool:
        """Return whether the order has a subject, with these tasks chosen, and this console may give it."""
        if order.role > CallerRole.OBSERVER and self._commands.why_no_order():
            return False
        if order.subject is Subject.HOST:
            return snapshot is not None and bool(snapshot.cordoned)
        return bool(tasks) and (order.name != "restart_without" or may_move(self._engine.source.spec))

    def ask(
        self, order: Order, tasks: tuple[Task, ...], snapshot: Snapshot, appearance: Appearance, host: str = ""
    ) -> None:
        """Ask the operator the questions of an order, and send it; `tasks` and `host` are chosen."""
        if order.is_carried:
            self._ask_argument(order, tasks, snapshot, appearance, host)
        elif order.name == "profile":
            self._ask_profile(tasks, snapshot, appearance)
        elif order.name == "stack":
            self._show_stack(tasks[0], [view.task for view in snapshot.tasks], appearance)
        elif order.name == "restart_without":
            self._ask_without(tasks[0], snapshot, appearance)
        else:
            self._ask_gang(order.name, tasks, snapshot, appearance)

    def _ask_gang(self, verb: str, tasks: tuple[Task, ...], snapshot: Snapshot, appearance: Appearance) -> None:
        """Restart, stop or start tasks, and the tasks that restart with them, if the operator agrees."""
        spec = self._engine.source.spec
        touched = tasks if verb == "start" else plan_restart(spec, snapshot.governing, tasks)
        keeps = keeps_training(spec, snapshot.governing, touched)
        running = tuple(task for task in touched if snapshot.view(task).is_up)
        question = _question(verb, tasks, touched, age_of_trainings(snapshot, spec, tasks), snapshot)
        self._confirm(replace(question, keeps=keeps, running=running), appearance)

    def _ask_without(self, task: Task, snapshot: Snapshot, appearance: Appearance) -> None:
        """Restart the gang without the host of a task, if the operator agrees."""
        touched = tuple(
            view.task
            for view in snapshot.tasks
            if view.task.role in MOVABLE and view.link.state is not LinkState.VACANT
        )
        question = _question("restart", (task,), touched, checkpoint_age(snapshot, [touched]), snapshot)
        self._confirm(replace(question, without=snapshot.view(task).agent.host), appearance)

    def _confirm(self, question: Question, appearance: Appearance) -> None:
        self._app.push_screen(ConfirmScreen(question, appearance), partial(self._answered, question))

    def _ask_argument(
        self, order: Order, tasks: tuple[Task, ...], snapshot: Snapshot, appearance: Appearance, host: str
    ) -> None:
        """Send an order to each of these tasks, or to the lead about a host, with the argument that is entered."""
        of_host = order.subject is Subject.HOST
        asked: Sequence[Task | None] = [None] if of_host else tasks
        lines = [f"{host}: {why}" for host, why in snapshot.cordoned.items()] if of_host else [*map(str, tasks)]
        question = "\n".join([order.question, "", *(f"  {line}" for line in lines), ""])
        cordoned = host if host in snapshot.cordoned else next(iter(snapshot.cordoned), "")
        usual = cordoned if of_host else order.usual

        def answered(argument: str | None) -> None:
            if argument and argument.strip():
                for task in asked:
                    self._app.run_worker(self._carry_out(order, task, argument.strip()), group="orders")

        self._app.push_screen(PromptScreen(question, appearance, usual), answered)

    async def _carry_out(self, order: Order, task: Task | None, argument: str) -> None:
        try:
            done = await self._commands.carry_out(order, task, argument)
        except CommandError as error:
            self._app.notify(str(error), severity="error", markup=False)
        else:
            self._app.notify(done, markup=False)

    def _answered(self, question: Question, agreed: bool | None) -> None:
        if agreed and question.without:
            orders = self._commands.restart_without(question.without)
            self._run(orders, question.verb, question.asked, question.generation or 0)
        elif agreed:
            orders = self._commands.order(question.verb, question.asked, question.generation or 0)
            self._run(orders, question.verb, question.asked, question.generation or 0)

    def _ask_profile(self, tasks: tuple[Task, ...], snapshot: Snapshot, appearance: Appearance) -> None:
        """Take TensorFlow's profile of each of these tasks, for the number of seconds that the operator enters."""
        age = age_of_trainings(snapshot, self._engine.source.spec, tasks)
        if (why := profile_refusal(age)) is not None:
            self._app.notify(f"no profile: {why}", severity="error", timeout=20, markup=False)
            return
        names = ", ".join(map(str, tasks))
        places = "\n".join(f"  {_place(snapshot, task)}" for task in tasks[:4]) + ("\n  ..." if len(tasks) > 4 else "")
        question = (
            f"Profile {names} for how many seconds?\n\nIt is written below\n{places}\n{self._fetched}\n"
            f"It slows the training meanwhile, and {RISK}.\n{cost(age)}\n"
        )
        prompt = PromptScreen(question, appearance, f"{PROFILE_SECONDS:g}")
        self._app.push_screen(prompt, partial(self._profile_answered, tasks))

    @property
    def _profiles(self) -> Path | None:
        """Folder of profiles beside the recording; None while nothing is recorded."""
        recorded = self._recorded()
        return None if recorded is None else recorded.with_suffix(".profiles")

    @property
    def _fetched(self) -> str:
        return "" if self._profiles is None else f"and fetched into {self._profiles}, beside the recording\n"

    def _profile_answered(self, tasks: tuple[Task, ...], answer: str | None) -> None:
        if answer is None:
            return
        try:
            seconds = float(answer)
        except ValueError:
            self._app.notify(f"{answer!r} is not a number of seconds", severity="error", markup=False)
            return
        try:
            folder = None if self._profiles is None else profile_folder(self._profiles)
        except OSError as error:
            self._app.notify(f"{self._profiles}: {error.strerror}", severity="error", markup=False)
            return
        for task in tasks:
            self._run(self._profile(task, seconds, folder), "profile", (task,), 0)

    async def _profile(self, task: Task, seconds: float, folder: Path | None) -> AsyncIterator[CommandProgressed]:
        fetched = None if folder is None else fetch_profile(task, seconds, self._commands, folder)
        async for progress in fetched or self._commands.profile(task, seconds):
            if not progress.file:
                yield CommandProgressed(0.0, "profile", Stage.WORKING, (task,), 0, progress.doing)
                continue
            written = f"{data_size(progress.bytes)} in {progress.file}"
            yield CommandProgressed(0.0, "profile", Stage.DONE, (task,), 0, written)
            self._app.notify(
                f"{written}\n\ntensorboard --logdir {progress.folder}",
                title=f"profile of {task}",
                timeout=60,
                markup=False,
            )

    def _run(
        self, steps: AsyncIterator[CommandProgressed], verb: str, tasks: tuple[Task, ...], generation: int
    ) -> None:
        self._app.run_worker(self._follow(steps, verb, tasks, generation), group="orders")

    async def _follow(
        self, steps: AsyncIterator[CommandProgressed], verb: str, tasks: tuple[Task, ...], generation: int
    ) -> None:
        source = self._engine.source
        try:
            async for progress in steps:
                self._engine.inbox.put(replace(progress, at=source.now()))
        except CommandError as error:
            failed = CommandProgressed(source.now(), verb, Stage.FAILED, tasks, generation, str(error))
            self._engine.inbox.put(failed)

    def _show_stack(self, task: Task, tasks: Sequence[Task], appearance: Appearance) -> None:
        """Show the Python stacks of a task's threads in a screen of their own, which may ask all tasks."""
        screen = StackScreen(task, appearance, partial(self._fetch_stacks, tasks))
        self._app.push_screen(screen)
        self._app.run_worker(self._fetch_stack(task, screen), group="stacks")

    async def _fetch_stack(self, task: Task, screen: StackScreen) -> None:
        try:
            screen.show(await self._commands.stack(task))
        except CommandError as error:
            screen.show(str(error))

    async def _fetch_stacks(self, tasks: Sequence[Task], screen: StackScreen) -> None:
        """Ask these tasks, some at a time, and show what has come after each round."""
        stacks: dict[Task, str] = {}
        for begin in range(0, len(tasks), _AT_ONCE):
            asked = tasks[begin : begin + _AT_ONCE]
            stacks.update(zip(asked, await asyncio.gather(*map(self._stack_text, asked)), strict=True))
            screen.show_all(stacks, len(tasks), self._engine.source.now())

    async def _stack_text(self, task: Task) -> str:
        try:
            return (await self._commands.stack(task)).text
        except CommandError as error:
            # Equal reasons of several tasks are one, as equal stacks are.
            return str(error).replace(str(task), "the task")


def _place(snapshot: Snapshot, task: Task) -> str:
    """Return the folder to which the agent writes profiles of a task."""
    described = snapshot.view(task).description
    if described is None or not described.log_path:
        return f"the state of {task}'s agent"
    files = TaskFiles(Path(described.log_path).parent, task)
    return f"{files.profiles} on {described.host}"


def _question(
    verb: str, asked: tuple[Task, ...], touched: tuple[Task, ...], age: float | None, snapshot: Snapshot
) -> Question:
    """Return what any command for these tasks asks; `age` is that of the checkpoint to which they go back."""
    return Question(
        verb=verb,
        asked=asked,
        touched=touched,
        strategy=snapshot.strategy,
        generation=snapshot.generation,
        checkpoint_age=age,
        untrained=untrained_since(snapshot, touched, age),
        total=len(snapshot.tasks),
    )
