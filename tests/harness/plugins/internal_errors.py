"""Exit status of a run in which a process of tests died of an error of its own: xdist prints it and ends with 0."""

from __future__ import annotations

import pytest


class InternalErrors:
    """Plugin that ends a run with pytest's status of an internal error, once one was seen."""

    seen = False

    def pytest_internalerror(self) -> None:
        self.seen = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.seen:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
