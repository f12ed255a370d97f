"""Questions to many agents, of which a limited number is asked at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

_AT_ONCE = 64
_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


async def ask_each(
    ask: Callable[[_Asked], Awaitable[_Answer]], asked: Iterable[_Asked], at_once: int = _AT_ONCE
) -> list[_Answer]:
    """Return the answers in the order of `asked`."""
    return await asyncio.gather(*_begun(ask, asked, at_once))


async def first_to_answer(ask: Callable[[_Asked], Awaitable[_Answer | None]], asked: Sequence[_Asked]) -> _Asked | None:
    """Return the first in the order of `asked` whose answer is not None, None without one."""
    begun = _begun(ask, asked, _AT_ONCE)
    try:
        for each, answer in zip(asked, begun, strict=True):
            if await answer is not None:
                return each
        return None
    finally:
        for answer in begun:
            answer.cancel()


def _begun(
    ask: Callable[[_Asked], Awaitable[_Answer]], asked: Iterable[_Asked], at_once: int
) -> list[asyncio.Task[_Answer]]:
    room = asyncio.Semaphore(at_once)

    async def question(each: _Asked) -> _Answer:
        async with room:
            return await ask(each)

    return [asyncio.create_task(question(each)) for each in asked]
