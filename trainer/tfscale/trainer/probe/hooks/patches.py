"""Replacement of attributes of TensorFlow and Keras by the probe's hooks, all of which can be taken back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfscale.trainer.feature import Feature, Name

Method = Callable[..., Any]

_INHERITED = object()


class _Patch(NamedTuple):
    owner: Any
    attribute: str
    original: Any
    """Value in the owner's own namespace, _INHERITED without one."""
    wrapper: Any


class Patches:
    """Present replacements of attributes.

    `on_fault` is called with a note for each feature that cannot be put in place.
    """

    def __init__(self, on_fault: Callable[[str], None]) -> None:
        self._on_fault = on_fault
        self._patches: list[_Patch] = []
        self._is_on = True

    def put(self, feature: Feature, hooks: Mapping[str, Method]) -> bool:
        """Put the hooks of a feature in place, by the path of the replaced name; return whether all names fit.

        A hook gets the original before the arguments of the call. If a name of the feature is not as expected, nothing
        is replaced.
        """
        if not self._is_on:
            return False
        if (fault := feature.fault()) is not None:
            self._on_fault(feature.note(fault))
            return False
        for path, hook in hooks.items():
            self._wrap(feature[path], hook)
        return True

    def undo(self) -> None:
        """Restore all originals, for good: hooks that another library has wrapped meanwhile only call the original."""
        self._is_on = False
        while self._patches:
            owner, attribute, original, wrapper = self._patches.pop()
            if vars(owner).get(attribute) is not wrapper:
                continue
            if original is _INHERITED:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)

    def _wrap(self, name: Name, hook: Method) -> None:
        owner, attribute = name.owner, name.attribute
        method = getattr(owner, attribute)

        @functools.wraps(method)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return hook(method, *args, **kwargs) if self._is_on else method(*args, **kwargs)

        self._patches.append(_Patch(owner, attribute, vars(owner).get(attribute, _INHERITED), wrapper))
        setattr(owner, attribute, wrapper)
