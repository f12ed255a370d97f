"""Build hook: the C library of the probe (trainer/native), where there is a C compiler, $CC or cc.

Without the library tfscale works as well, and measuring costs a step more (docs/reference/cost.md).
"""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("trainer/native/ring.c", "trainer/native/usual_steps.c")
LIBRARY = "trainer/tfscale/trainer/probe/rows/libtfscale.so"
SHARED = "share"
"""Folder of completions and man pages, which only the tree of a release has."""
OPTIONS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-pthread", "-shared", "-fPIC")


class Native(BuildHookInterface):
    """Hook that compiles before anything is packed or installed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        root = Path(self.root)
        if (root / SHARED).is_dir():
            build_data["shared_data"][SHARED] = SHARED
        for library in (root / LIBRARY).parents[1].rglob("*.so"):
            # A library of an older version, beside a folder of its name, would be imported in the folder's place.
            library.unlink()
        sources = [root / source for source in SOURCES]
        compiler = shlex.split(os.environ.get("CC") or "cc")
        try:
            subprocess.run([*compiler, *OPTIONS, *sources, "-o", root / LIBRARY, "-ldl", "-lm"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"without {LIBRARY}: {error}")
            return
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
