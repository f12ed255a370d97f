"""Suggestion of the name that a misspelt word was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LEAST_ALIKE = 0.7
"""Ratio of difflib from which on two words count as one misspelt (chosen): `repla` and `replay` have 0.91."""


def suggestion(word: str, names: Iterable[str], otherwise: str) -> str:
    """Return the end of an error about a word that is none of `names`: the question for the most similar one.

    Where none is similar, `otherwise` is the end.
    """
    similar = difflib.get_close_matches(word, list(names), 1, _LEAST_ALIKE)
    return f"; did you mean {similar[0]}?" if similar else f"; {otherwise}"
