"""The strongest spans of an event in words and by example: their shape, and the most similar TRAIN segment. Pure.

Works on what the event publishes, so that the event and its examples speak about the same spans.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent.events.numbers import six_digits
from agent.models.normal_values import NormalValues
from anchormoe.windows import Floats, Grid
from connectors.timestamps import format_iso, parse_iso

if TYPE_CHECKING:
    from anchormoe import Prediction
    from anchormoe.profiles.examples import ExampleIndex

Json = dict[str, Any]
MAX_SIMILAR = 3
"""Spans of an event that are compared with TRAIN, the strongest."""
_LONGEST_SHAPE = 4096
"""Steps of a span whose shape is told: finding what comes again takes the square of them."""


def similar_segments(
    spans: Sequence[Mapping[str, Any]],
    prediction: "Prediction",
    at: int,
    *,
    window: "ComparedWindow",
    index: "ExampleIndex",
) -> list[Json]:
    """For the published spans of a window: number of the span, its shape, class, place and distance of its example.

    Spans of several channels read together have none: no single curve is like them.
    """
    return list(_rows(spans[:MAX_SIMILAR], prediction, at, window, index))


class ComparedWindow:
    """A window (C, T), NaN where missing, whose first step is `start` on the grid; and what its parts are called."""

    def __init__(
        self, values: Floats, channels: Sequence[str], classes: Sequence[str], grid: Grid, start: int,
        expert_names: Mapping[str, str], normal: NormalValues | None = None,
    ) -> None:  # fmt: skip
        self.values, self.classes, self.normal = values, classes, normal
        self._grid, self._start = grid, start
        self._channels = {name: number for number, name in enumerate(channels)}
        self._experts = {readable: name for name, readable in expert_names.items()}

    def channel(self, name: str) -> int:
        return self._channels[name]

    def expert(self, published: str) -> str:
        """The internal name, which the index knows."""
        return self._experts.get(published, published)

    def shape(self, channel: int, first: int, stop: int, expert: str) -> str | None:
        """`oscillation near 2 Hz`; None where it is not known what is normal, and of very long spans."""
        from anchormoe.profiles.names import family_of
        from anchormoe.profiles.shapes import Usual, frequency_words, shape_of

        if self.normal is None or stop - first > _LONGEST_SHAPE:
            return None
        low, high, deviation = (
            float(part[channel]) for part in (self.normal.low, self.normal.high, self.normal.deviation)
        )
        if not math.isfinite(low + high):
            return None
        usual = Usual(low, high, deviation if math.isfinite(deviation) else 0.0)
        values = self.values[channel, first:stop]
        found = shape_of(values.astype(np.float64), np.isfinite(values), usual, family_of(expert))
        if found.cycles is None:
            return found.words
        return f"{found.words} {frequency_words(found.cycles, self._grid.period_ns / 1e9)}"

    def step(self, time: str) -> int:
        offset_ns = parse_iso(time) - self._grid.time_ns(self._start)
        return round(offset_ns / self._grid.period_ns)


def _rows(
    spans: Sequence[Mapping[str, Any]], prediction: "Prediction", at: int, window: ComparedWindow, index: "ExampleIndex"
) -> Iterator[Json]:
    from anchormoe.profiles.examples import SpanToCompare

    for number, span in enumerate(spans):
        if len(span["channels"]) != 1:
            continue
        channel = window.channel(span["channels"][0])
        first, stop = window.step(span["start"]), window.step(span["end"])
        values = window.values[channel, first:stop]
        evidence = _by_class(prediction, at, (channel,), first, stop)
        own = SpanToCompare(values, np.isfinite(values), span["contribution"], evidence)
        expert = window.expert(span["expert"])
        found = index.nearest(expert, channel, own)
        if found is not None:
            yield {
                "span": number,
                "shape": window.shape(channel, first, stop, expert),
                "class": window.classes[found.label],
                "recording": found.recording,
                "case": found.case,
                "start": None if found.start_ns is None else format_iso(found.start_ns),
                "distance": six_digits(found.distance),
            }


def _by_class(
    prediction: "Prediction", at: int, term: tuple[int, ...], first: int, stop: int
) -> NDArray[np.float64] | None:
    """(Y,) the evidence of these steps of a term; patches count by their overlap."""
    if term not in prediction.terms:
        return None
    common = np.minimum(prediction.stops, stop) - np.maximum(prediction.starts, first)
    share = np.maximum(common, 0) / (prediction.stops - prediction.starts)
    return np.asarray(share @ np.ascontiguousarray(prediction.evidence[at, :, prediction.terms.index(term)]))
