"""A page in Chromium without a window, as Qt has it: what its terminal shows before each key, as lines of JSON.

python page_visitor.py URL FOLDER WIDTHxHEIGHT [WORDS KEY]...: waits for the words, keeps a picture of the page in the
folder, then presses the key; `@words` clicks on these words.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu"}

from PySide6.QtCore import QEvent, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication, QWidget

READ = """
(() => {
    const rows = document.querySelector('.xterm-rows'), box = document.querySelector('.xterm-screen');
    const place = box?.getBoundingClientRect();
    return rows && place ? JSON.stringify([rows.innerText, place.left, place.top, place.width, place.height]) : '';
})()
"""
NAMED = {"escape": Qt.Key.Key_Escape, "enter": Qt.Key.Key_Return}


class Visit:
    """Visit of a page, which is asked every half second for its text."""

    def __init__(self, view: QWebEngineView, folder: Path, steps: list[str]) -> None:
        self._view = view
        self._folder = folder
        self._steps = list(zip(steps[::2], steps[1::2], strict=True))
        self._seen = 0
        self._timer = QTimer(interval=500)
        self._timer.timeout.connect(lambda: view.page().runJavaScript(READ, self._see))
        self._timer.start()

    def _see(self, told: str) -> None:
        page: list[Any] = json.loads(told) if told else []
        words, key = self._steps[0]
        text = page[0].replace("\N{NO-BREAK SPACE}", " ") if page else ""
        if not page or words not in " ".join(text.split()):
            return
        print(json.dumps(text), flush=True)
        self._seen += 1
        self._view.grab().save(str(self._folder / f"browser-{self._seen:02}.png"))
        self._steps.pop(0)
        if key.startswith("@"):
            self._click(key[1:], text.split("\n"), *page[1:])
        else:
            self._press(key)
        if not self._steps:
            self._timer.stop()
            QApplication.quit()

    def _press(self, key: str) -> None:
        code = NAMED.get(key) or Qt.Key(ord(key.upper()))
        typed = "" if key in NAMED else key
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            QApplication.postEvent(self._page(), QKeyEvent(kind, code, Qt.KeyboardModifier.NoModifier, typed))

    def _click(self, words: str, rows: list[str], left: float, top: float, width: float, height: float) -> None:
        """Click on the second cell of the first such words; the terminal fills a box of so many pixels."""
        y = next(number for number, row in enumerate(rows) if words in row)
        x = rows[y].index(words) + 1
        at = QPointF(left + (x + 0.5) * width / max(map(len, rows)), top + (y + 0.5) * height / len(rows))
        button, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        for kind, held in ((QEvent.Type.MouseButtonPress, button), (QEvent.Type.MouseButtonRelease, button)):
            QApplication.postEvent(self._page(), QMouseEvent(kind, at, at, button, held, none))

    def _page(self) -> QWidget:
        self._view.activateWindow()
        page = self._view.focusProxy()
        page.setFocus()
        return page


def main() -> None:
    url, folder, size, *steps = sys.argv[1:]
    application = QApplication(sys.argv[:1])
    view = QWebEngineView()
    view.resize(*map(int, size.split("x")))
    view.load(QUrl(url))
    view.show()
    visit = Visit(view, Path(folder), steps)
    application.exec()
    del visit, view


if __name__ == "__main__":
    main()
