"""End card on the screen."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.ending.end_card import EndCard
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.base_widgets import AppearanceWidget

_NAME = 10


class EndPane(AppearanceWidget):
    """Framed card of a run that is over; not there before."""

    DEFAULT_CSS = """
    EndPane { height: auto; display: none; border: round $success; padding: 0 1; }
    EndPane.over { display: block; }
    EndPane.failed { border: round $error; }
    EndPane.ascii { border: ascii $success; }
    EndPane.ascii.failed { border: ascii $error; }
    """
    card: reactive[EndCard | None] = reactive(None, layout=True)

    def watch_appearance(self) -> None:
        self.set_class(self.appearance.glyphs.border == "ascii", "ascii")

    def watch_card(self, card: EndCard | None) -> None:
        self.set_class(card is not None, "over")
        if card is not None:
            self.set_class(not card.is_well, "failed")
            self.border_title = f"{card.run}: {card.end}"

    def render(self) -> Text:
        """Draw a line for each fact, a long one in up to three."""
        palette, lines = self.appearance.palette, list[Text]()
        for name, text in self.card.facts if self.card else ():
            line = Text(name.ljust(_NAME), style=palette.dim).append(text, style=palette.text)
            lines += wrap_hanging(line, max(20, self.size.width), _NAME, 3)
        return Text("\n").join(spelled(line, self.appearance) for line in lines)
