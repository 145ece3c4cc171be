"""Which channels carried a span: occlusion, a method beside the additive identity and named as such."""

from collections.abc import Callable, Sequence

import numpy as np

from anchormoe.cases import Bool, Cases, Float32, Float64
from anchormoe.errors import ModelError

METHOD = "occlusion"
MAX_WINDOWS = 64
Span = tuple[int, int]


def occlude_channels(
    scores: Callable[[Cases], Float64], window: Float32, mask: Bool, spans: Sequence[Span], scaled: Float32
) -> Float64:
    """(S, C): how much the score falls when a channel is missing inside a span (so takes TRAIN's mean).

    `scores` gives one number per case, `scaled` is the window on the model's scale. With more than 64 span-channel
    pairs, the channels furthest from TRAIN's mean in each span are tried; NaN means not tried.
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


def _pairs(spans: Sequence[Span], mask: Bool, scaled: Float32) -> list[tuple[int, int]]:
    """Span and channel, as many as the budget allows, the channels with most to say first."""
    budget = max(1, (MAX_WINDOWS - 1) // max(1, len(spans)))
    pairs = []
    for index, (start, stop) in enumerate(spans[: MAX_WINDOWS - 1]):
        energy = np.abs(scaled[:, start:stop]).mean(axis=1)
        tried = [int(c) for c in np.argsort(-energy, kind="stable") if mask[c, start:stop].any()][:budget]
        pairs += [(index, channel) for channel in tried]
    return pairs


def _occluded(window: Float32, mask: Bool, places: Sequence[tuple[Span, int]]) -> Cases:
    """The window itself, then one copy per place."""
    masks = np.repeat(mask[None], len(places) + 1, axis=0)
    for row, ((start, stop), channel) in enumerate(places, start=1):
        masks[row, channel, start:stop] = False
    return Cases.from_windows(np.broadcast_to(window, masks.shape), masks)


def _refuse_wrong_spans(spans: Sequence[Span], steps: int) -> None:
    for start, stop in spans:
        if not 0 <= start < stop <= steps:
            raise ModelError(f"the span [{start}, {stop}) does not lie in a window of {steps} steps")
