"""A page in Chromium without a window, as Qt has it: what its terminal shows after each key, as lines of JSON.

python browser.py URL PICTURE.png WIDTHxHEIGHT [WORDS KEY]...: waits for the words, then presses the key.
"""

from __future__ import annotations

import json
import os
import sys

os.environ |= {"QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": "--no-sandbox --disable-gpu"}

from PySide6.QtCore import QEvent, Qt, QTimer, QUrl
from PySide6.QtGui import QKeyEvent
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication

READ = "document.querySelector('.xterm-rows')?.innerText"


class Visit:
    """Visit of a page, which is asked every half second for its text."""

    def __init__(self, view: QWebEngineView, picture: str, steps: list[str]) -> None:
        self._view = view
        self._picture = picture
        self._steps = list(zip(steps[::2], steps[1::2], strict=True))
        self._timer = QTimer(interval=500)
        self._timer.timeout.connect(lambda: view.page().runJavaScript(READ, self._see))
        self._timer.start()

    def _see(self, text: str | None) -> None:
        words, key = self._steps[0]
        if text is None or words not in text.replace("\N{NO-BREAK SPACE}", " "):
            return
        print(json.dumps(text), flush=True)
        self._steps.pop(0)
        self._press(key)
        if not self._steps:
            self._timer.stop()
            self._view.grab().save(self._picture)
            QApplication.quit()

    def _press(self, key: str) -> None:
        self._view.activateWindow()
        page = self._view.focusProxy()
        page.setFocus()
        code = Qt.Key(ord(key.upper()))
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            QApplication.postEvent(page, QKeyEvent(kind, code, Qt.KeyboardModifier.NoModifier, key))


def main() -> None:
    url, picture, size, *steps = sys.argv[1:]
    application = QApplication(sys.argv[:1])
    view = QWebEngineView()
    view.resize(*map(int, size.split("x")))
    view.load(QUrl(url))
    view.show()
    visit = Visit(view, picture, steps)
    application.exec()
    del visit, view


if __name__ == "__main__":
    main()
