"""Table of metrics in the documentation: each row is one of the pages."""

from __future__ import annotations

import re
from pathlib import Path

from tfscale.core.metrics.metric_table import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "prometheus.md"


def test_the_table_has_each_metric_with_its_kind_labels_and_help() -> None:
    rows = re.findall(r"^\| `(tfscale_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    written = {name: (kind, re.findall(r"`(\w+)`", labels), about) for name, kind, labels, about in rows}
    assert written == {name: (row.kind, [*row.labels], row.about) for name, row in METRICS.items()}
    assert [*written] == [*METRICS]
