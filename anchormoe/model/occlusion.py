"""Channel attribution by occlusion: a method of its own, outside the additive identity, and named as such."""

from collections.abc import Callable, Sequence

import numpy as np

from anchormoe.cases import Bool, Cases, Float32, Float64
from anchormoe.errors import ModelError

METHOD = "occlusion"
MAX_WINDOWS = 64
Bounds = tuple[int, int]


def occlude_channels(
    scores: Callable[[Cases], Float64], window: Float32, mask: Bool, spans: Sequence[Bounds], scaled: Float32
) -> Float64:
    """(S, C): by how much the score falls when a channel is masked inside a span.

    `scores` gives one number per case; `scaled` is the window on the model's scale. At most 63 pairs of span and
    channel are tried, the channels furthest from TRAIN's mean first; NaN means not tried.
    """
    _refuse_wrong_spans(spans, window.shape[1])
    found = np.full((len(spans), window.shape[0]), np.nan)
    pairs = _pairs(spans, mask, scaled)
    for index, (start, stop) in enumerate(spans):
        found[index, ~mask[:, start:stop].any(axis=1)] = 0.0
    if pairs:
        values = scores(_occluded(window, mask, [(spans[index], channel) for index, channel in pairs]))
        for (index, channel), value in zip(pairs, values[1:], strict=True):
            found[index, channel] = values[0] - value
    return found


def _pairs(spans: Sequence[Bounds], mask: Bool, scaled: Float32) -> list[tuple[int, int]]:
    """Pairs of span and channel within the budget, the channels furthest from TRAIN's mean first."""
    budget = max(1, (MAX_WINDOWS - 1) // max(1, len(spans)))
    pairs = []
    for index, (start, stop) in enumerate(spans[: MAX_WINDOWS - 1]):
        energy = np.abs(scaled[:, start:stop]).mean(axis=1)
        tried = [int(c) for c in np.argsort(-energy, kind="stable") if mask[c, start:stop].any()][:budget]
        pairs += [(index, channel) for channel in tried]
    return pairs


def _occluded(window: Float32, mask: Bool, pairs: Sequence[tuple[Bounds, int]]) -> Cases:
    """The window itself, then one copy per masked pair of span and channel."""
    masks = np.repeat(mask[None], len(pairs) + 1, axis=0)
    for row, ((start, stop), channel) in enumerate(pairs, start=1):
        masks[row, channel, start:stop] = False
    return Cases.from_windows(np.broadcast_to(window, masks.shape), masks)


def _refuse_wrong_spans(spans: Sequence[Bounds], steps: int) -> None:
    for start, stop in spans:
        if not 0 <= start < stop <= steps:
            raise ModelError(f"span [{start}, {stop}) is not inside a window of {steps} steps")
