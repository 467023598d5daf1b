"""What is usual among numbers, so that a few odd ones among them don't make odd ones usual."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

NORMAL_MAD = 0.6745  # median absolute deviation of a normal distribution, in standard deviations
NORMAL_MEAN_AD = 1.253314  # its standard deviation, in mean absolute deviations
FEW = 4  # of n values the range is 1 + 4/n as wide: the deviation of few is often far too low


def usual(
    values: Sequence[float], threshold: float, share: float, least: float
) -> dict[str, float]:
    """Return from where (``low``) to where (``high``) values usually are; at least one is given.

    Outside is what has a modified z-score above ``threshold``: 0.6745·(x − median) / MAD, of
    Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993), who take 3.5. Where more than
    half of the values are the same, MAD is 0, and their mean absolute deviation stands in:
    (x − median) / (1.253314·MeanAD). On each side there is room for ``share`` of the median and
    for ``least``: where all values were the same, the next may be a little different.
    """
    middle = median(values)
    away = [abs(value - middle) for value in values]
    deviation = median(away) / NORMAL_MAD or fmean(away) * NORMAL_MEAN_AD
    width = max(threshold * deviation * (1 + FEW / len(values)), share * abs(middle), least)
    low = middle - width
    return {"low": max(low, 0.0) if min(values) >= 0 else low, "high": middle + width}
