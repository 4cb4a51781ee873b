"""Figures with confidence intervals."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import NoReturn, Optional, Union

#: Error for arithmetic that depends on the correlation of two estimates.
_PAIRED = (
    "two estimates have no {} with an interval, as both are measured on the same parts of one program; "
    'for speeds use found["perforated"].speed_over("thp"), for the figures alone .value'
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A figure with its 95 % confidence interval.

    An estimate can be multiplied and divided by a number, and numbers can be added and subtracted: the
    interval follows. Comparisons are of the figures; ``estimate.low > 1`` is true if the whole interval lies
    above 1.
    ``f"{estimate:.2f}"`` formats the figure, ``str(estimate)`` has the interval.
    """

    #: The figure.
    value: float
    #: Half the interval's width; None if there is no interval.
    half_width: Optional[float] = None

    # Lets this class handle arithmetic with NumPy's numbers.
    __array_ufunc__ = None

    @property
    def low(self) -> Optional[float]:
        """Lower end of the interval; None if there is no interval."""
        return None if self.half_width is None else self.value - self.half_width

    @property
    def high(self) -> Optional[float]:
        """Upper end of the interval; None if there is no interval."""
        return None if self.half_width is None else self.value + self.half_width

    def __float__(self) -> float:
        return self.value

    def __mul__(self, factor: float) -> Estimate:
        number = _number(factor, "product")
        if number is None:
            return NotImplemented
        return Estimate(self.value * number, None if self.half_width is None else self.half_width * abs(number))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Estimate:
        number = _number(divisor, "quotient")
        return NotImplemented if number is None else self * (1.0 / number)

    def __rtruediv__(self, dividend: float) -> NoReturn:
        raise TypeError(f"{dividend!r} ÷ an estimate has no symmetric interval; use .value, .low and .high")

    def __add__(self, other: float) -> Estimate:
        number = _number(other, "sum")
        return NotImplemented if number is None else Estimate(self.value + number, self.half_width)

    __radd__ = __add__

    def __sub__(self, other: float) -> Estimate:
        number = _number(other, "difference")
        return NotImplemented if number is None else self + -number

    def __rsub__(self, other: float) -> Estimate:
        return -self + other

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, self.half_width)

    def __pos__(self) -> Estimate:
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Estimate):
            return self.value == other.value and self.half_width == other.half_width
        return self.value == other if isinstance(other, numbers.Real) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Union[Estimate, float]) -> bool:
        value = _figure(other)
        return NotImplemented if value is None else self.value < value

    def __le__(self, other: Union[Estimate, float]) -> bool:
        value = _figure(other)
        return NotImplemented if value is None else self.value <= value

    def __gt__(self, other: Union[Estimate, float]) -> bool:
        value = _figure(other)
        return NotImplemented if value is None else self.value > value

    def __ge__(self, other: Union[Estimate, float]) -> bool:
        value = _figure(other)
        return NotImplemented if value is None else self.value >= value

    def __format__(self, form: str) -> str:
        return format(self.value, form) if form else str(self)

    def __repr__(self) -> str:
        half = self.half_width
        if half is None or not math.isfinite(half):
            return f"{self.value:.4g}"
        if half == 0.0:
            return f"{self.value:.4g} ± 0"
        # One digit of the interval, and the figure's digits down to it.
        digits = max(-math.floor(math.log10(half)), 0)
        return f"{self.value:.{digits}f} ± {half:.{digits}f}"


def _number(value: object, result: str) -> Optional[float]:
    """A number for arithmetic; None for other types."""
    if isinstance(value, Estimate):
        raise TypeError(_PAIRED.format(result))
    return float(value) if isinstance(value, numbers.Real) else None


def _figure(value: object) -> Optional[float]:
    """A number, or the figure of an estimate, for comparison; None for other types."""
    return float(value) if isinstance(value, (Estimate, numbers.Real)) else None
