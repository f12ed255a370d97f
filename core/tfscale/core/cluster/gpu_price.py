"""The price of a GPU, as the cluster file's `[cost]` gives it: what lost time costs in GPU-hours and in money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfscale.core.errors import UsageError

KEYS = ("currency", "per_gpu_hour")


@dataclass(frozen=True, slots=True)
class GpuPrice:
    """Price of one GPU for an hour."""

    per_hour: float
    currency: str = "USD"

    def money(self, gpu_hours: float) -> str:
        """Return the price of GPU-hours: `31 USD`, `0.42 USD`."""
        amount = self.per_hour * gpu_hours
        return f"{amount:,.0f} {self.currency}" if amount >= 9.995 else f"{amount:.2f} {self.currency}"

    def document(self) -> dict[str, float | str]:
        """Return the table of the cluster file."""
        return {"per_gpu_hour": self.per_hour, "currency": self.currency}


def gpu_hours(gpus: int, seconds: float) -> float:
    """Return the GPU-hours of `gpus` GPUs in `seconds`."""
    return gpus * seconds / 3600


def hours_text(hours: float) -> str:
    """Return GPU-hours with two digits, or all digits of the whole part: `0.93 GPU-h`, `12 GPU-h`, `1,230 GPU-h`."""
    return f"{hours:,.0f} GPU-h" if hours >= 99.5 else f"{hours:.2g} GPU-h"


def parse_gpu_price(table: Mapping[str, Any]) -> GpuPrice:
    """Return the price of the table `[cost]`. Raises UsageError."""
    for key in table:
        if key not in KEYS:
            raise UsageError(f"[cost] has no key {key!r}: use one of {', '.join(KEYS)}")
    price, currency = table.get("per_gpu_hour"), table.get("currency", "USD")
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < 1e6:
        raise UsageError(f"[cost] per_gpu_hour: {price!r} is not a price: write for example 2.50")
    if not isinstance(currency, str) or not 0 < len(currency) <= 8 or not currency.isprintable():
        raise UsageError(f"[cost] currency: {currency!r} is not the name of a currency: write for example EUR")
    return GpuPrice(float(price), currency)
