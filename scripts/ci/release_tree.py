"""Make a source tree ready for a release: completions and man pages, links of the description, where the code is."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage
from tfscale.agent import cli as agent
from tfscale.console.command_table import COMMANDS, WATCH
from tfscale.console.settings import command_line as console
from tfscale.core.settings.precedence import CommandLine
from tfscale.trainer import cli as trainer

_COMPLETIONS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
"""Place of a program's completions below `share`, by shell."""
_SUMMARIES = {
    "tfscale-agent": "start and supervise the TensorFlow tasks of a host",
    "tfscale-console": "watch a TensorFlow cluster, and mend it",
    "tfscale-train": "train TensorFlow by the techniques of scaling",
}
_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?:|#)([^)]+)\)")
"""Link or picture of a Markdown page that leads into the tree."""


def main() -> None:
    """Read the command line and change the tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("version")
    parser.add_argument("repository", help="address of the repository")
    given = parser.parse_args()
    write_shared(given.tree / "share")
    repository = given.repository.rstrip("/")
    readme, project = given.tree / "README.md", given.tree / "pyproject.toml"
    readme.write_text(with_whole_links(readme.read_text(), repository, f"v{given.version}"))
    project.write_text(with_addresses(project.read_text(), repository, f"v{given.version}"))


def write_shared(folder: Path) -> None:
    """Write completions and man pages of all programs, at their places below a folder `share`."""
    for name, parser in parsers().items():
        parser.man_short_description = _SUMMARIES[name]
        texts = {place.format(name): shtab.complete(parser, shell=shell) for shell, place in _COMPLETIONS.items()}
        texts[f"man/man1/{name}.1"] = str(Manpage(parser))
        for place, text in texts.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def parsers() -> Mapping[str, CommandLine]:
    """Return the parser of each program, by the program's name."""
    return {
        "tfscale-agent": agent.parser(),
        "tfscale-console": console.parser(WATCH, COMMANDS),
        "tfscale-train": trainer.parser(),
    }


def with_whole_links(page: str, repository: str, tag: str) -> str:
    """Return a page whose links lead to the repository's files at a tag, and whose pictures are loaded from there."""

    def whole(link: re.Match[str]) -> str:
        picture, begin, place = link.groups()
        return f"{picture}{begin}{repository}/{'raw' if picture else 'blob'}/{tag}/{place})"

    return _LINK.sub(whole, page)


def with_addresses(project: str, repository: str, tag: str) -> str:
    """Return the text of a pyproject.toml with the addresses of code, pages, changes and issues."""
    addresses = {
        "Repository": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/README.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    rows = "\n".join(f'{name} = "{address}"' for name, address in addresses.items())
    return project.replace("\n[project.scripts]\n", f"\n[project.urls]\n{rows}\n\n[project.scripts]\n", 1)


if __name__ == "__main__":
    main()
