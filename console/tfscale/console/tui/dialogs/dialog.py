"""Bases of the dialogues: their frame, pages of text, and questions with buttons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Button, Static
from textual.widgets.button import ButtonVariant
from tfscale.console.tui.widgets.appearance.theme import Appearance

_TALL = 12
"""Lines of a screen from which on a question has an empty line at its top."""
_AROUND, _AROUND_LOW = 7, 4
"""Lines of a question beside its text: its frame, its buttons, and the empty lines; of a low screen."""


class Dialog(ModalScreen[ScreenResultType], Generic[ScreenResultType]):
    """Dialogue above the screen; its content lies in one container of the class `frame`."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog > .frame {
        width: 66; max-width: 95%; height: auto; max-height: 95%;
        background: $panel; border: round $secondary; padding: 0 2;
    }
    Dialog.ascii > .frame { border: ascii $secondary; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "copy_or_quit", "copy what the mouse has marked, else quit", show=False)
    ]

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(classes="ascii" if appearance.glyphs.border == "ascii" else "")
        self._look = appearance
        self._is_over = False

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialogue once: a key that was pressed before it was gone would close the screen below it."""
        if self._is_over:
            return AwaitComplete()
        self._is_over = True
        return super().dismiss(result)

    async def action_copy_or_quit(self) -> None:
        if marked := self.get_selected_text():
            self.app.copy_to_clipboard(marked)
        else:
            await self.app.run_action("quit")


class Page(Dialog[None]):
    """Dialogue of text that scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll(1)", "down", show=False),
        Binding("k", "scroll(-1)", "up", show=False),
    ]

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


class Choice(NamedTuple, Generic[ScreenResultType]):
    """Button of a question."""

    label: str
    answer: ScreenResultType
    variant: ButtonVariant = "default"


class QuestionDialog(Dialog[ScreenResultType], Generic[ScreenResultType]):
    """Dialogue with an answer by button, or by a key that the subclass binds to `answer`.

    The first choice has the focus from the first frame, so that `enter` pressed too early changes nothing.
    """

    DEFAULT_CSS = """
    QuestionDialog > .frame { max-width: 90%; max-height: 100%; border: round $warning; padding: 1 2 0 2; }
    QuestionDialog > .frame { border-subtitle-color: $secondary; border-subtitle-background: $panel; }
    QuestionDialog.ascii > .frame { border: ascii $warning; }
    QuestionDialog.low > .frame { padding: 0 2; }
    QuestionDialog VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    QuestionDialog Static { height: auto; }
    QuestionDialog Horizontal { height: 1; margin: 1 0 0 0; align-horizontal: right; }
    QuestionDialog Button { margin: 0 0 0 2; min-width: 14; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.focus_previous", "the button before", show=False),
        Binding("right", "app.focus_next", "the button after", show=False),
    ]

    def __init__(
        self, text: Text, choices: Sequence[Choice[ScreenResultType]], appearance: Appearance, hint: str = ""
    ) -> None:
        """Ask `text`; `hint`, about a further key, stands in the frame."""
        super().__init__(appearance)
        self._text = Static(text)
        self._hint = hint
        self._answers = {
            Button(choice.label, variant=choice.variant, compact=True): choice.answer for choice in choices
        }

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_subtitle = self._hint
            with VerticalScroll(can_focus=False):
                yield self._text
            with Horizontal():
                yield from self._answers

    def on_mount(self) -> None:
        self._make_room()

    def on_resize(self) -> None:
        self._make_room()

    def _make_room(self) -> None:
        """Let a long text scroll above the buttons, which are always seen."""
        height = self.app.size.height
        self.set_class(height < _TALL, "low")
        self.query_one(VerticalScroll).styles.max_height = max(
            1, height - (_AROUND if height >= _TALL else _AROUND_LOW)
        )

    def ask(self, text: Text) -> None:
        """Show another text above the same buttons."""
        self._text.update(text)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self._answers[event.button])

    def action_answer(self, answer: ScreenResultType) -> None:
        self.dismiss(answer)
