"""Hook of mkdocs: links of pages that lead out of docs/ lead to the repository, or become the path as text."""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with its links as the site needs them."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def lead(link: re.Match[str]) -> str:
        words, place = link.groups()
        path = posixpath.normpath(posixpath.join(folder, place))
        if path.startswith("docs/"):
            return link[0]
        repository = os.environ.get("TFSCALE_REPOSITORY", "").rstrip("/")
        return f"[{words}]({repository}/blob/HEAD/{path})" if repository else f"{words} (`{path}`)"

    return _LINK.sub(lead, markdown)
