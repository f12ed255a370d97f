"""The JSON schema of the cluster file and its reader: what one refuses, the other does, but for relations of values."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.cluster.file.cluster_file import parse_cluster

_SCHEMA = json.loads(files("tfscale.core.cluster.file").joinpath("cluster.schema.json").read_text())
_VALIDATOR = Draft202012Validator(_SCHEMA)
_DOCUMENTED = Path(__file__).parents[4] / "docs" / "reference" / "cluster.md"
_RELATIONS = (
    "is used 2 times", "the cluster has no such task", "there can be only one", "is there twice", "names no task",
    "is missing: a tf.data service", "is shorter than backoff", "addresses, and agents", "names 10.0.0.9:7070 twice",
    "and [cluster] has",
)  # fmt: skip
"""Words of the reader about several values together, which a schema of single ones does not judge."""
_RANGES = ("is not a speed", "is not a time")
"""Words of the reader about texts whose numbers are out of range."""
_VALUES: tuple[Any, ...] = (
    7, 0, True, "x", "", "a:1", "a:99999", "3s", "9Gbit/s", "on", "Never", [], ["a:1"], {}, {"worker": "Never"}, None
)  # fmt: skip


def whole_document() -> dict[str, Any]:
    """Return the example of the documentation, with every key of every table."""
    example = re.search(r"```toml\n(.*?)```", _DOCUMENTED.read_text(), re.DOTALL)
    assert example is not None
    document = tomllib.loads(example[1])
    document["recovery"] = {
        "policy": {"worker": "OnFailure"}, "max_restarts": 3, "period": "1h", "backoff": "2s", "most_backoff": "1min",
        "without_progress": 3, "on_hang": "tell", "on_straggler": "tell", "replace_after": "30s", "min_workers": 1,
        "cordon_after": 3,
    }  # fmt: skip
    return document


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document."""
    yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from places(each, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the document with another value at a path."""
    if not path:
        return value
    whole = copy.deepcopy(document)
    parent = whole
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return whole


def without(document: Any, path: tuple[Any, ...]) -> Any:
    whole = copy.deepcopy(document)
    parent = whole
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return whole


def refusal(document: Any) -> str:
    """Return the reader's words about a document; empty where it reads it."""
    try:
        parse_cluster(document, name="x", where="x", base=Path())
    except ClusterError as error:
        return str(error)
    return ""


def test_reader_and_schema_refuse_the_same() -> None:
    document = whole_document()
    assert not refusal(document) and _VALIDATOR.is_valid(document)
    variants = [changed(document, path, value) for path in places(document) for value in _VALUES]
    variants += [without(document, path) for path in places(document) if path]
    told = 0
    for variant in variants:
        said, fits = refusal(variant), _VALIDATOR.is_valid(variant)
        is_relation = any(words in said for words in (*_RELATIONS, *_RANGES))
        assert fits == (not said) or (fits and is_relation), (variant, said)
        told += bool(said)
    assert 200 < told < len(variants) - 50


def test_each_table_has_the_keys_that_the_reader_names() -> None:
    document = whole_document()
    tables: dict[tuple[str, ...], Any] = {(): _SCHEMA} | {
        (name,): _SCHEMA["properties"][name] for name in ("program", "tls", "cost", "devices", "recovery", "spares")
    }
    for path, schema in tables.items():
        said = refusal(changed(document, (*path, "zzz"), 1))
        assert "has no key 'zzz'" in said
        assert set(said.rpartition("use one of ")[2].split(", ")) == set(schema["properties"])
    said = refusal(changed(document, ("cluster", "zzz"), ["a:1"]))
    roles = {*said.rpartition("use one of ")[2].split(", "), "master"}
    assert roles == set(_SCHEMA["properties"]["cluster"]["oneOf"][1]["properties"])


@pytest.mark.parametrize("cluster", ["alone", {"worker": ["a:1"]}])
def test_little_is_enough(cluster: Any) -> None:
    assert _VALIDATOR.is_valid({"cluster": cluster}) and not refusal({"cluster": cluster})
