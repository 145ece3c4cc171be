"""An asset's samples for people: with units, TRAIN's band, and marks on what was not simply measured. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agent.models.normal_values import NormalValues
from agent.page.api import Advice, GroupInfo, Mark, Marked, Normal, Samples, Signals
from agent.page.api import Trace as ApiTrace
from agent.page.traces import Trace
from agent.settings import ResolvedChannel, ResolvedGroup
from anchormoe.windows import Floats, Grid, WindowShape, fill
from connectors.timestamps import NS_PER_MS, parse_iso


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the page knows of a group; `units` are those of its model, `normal` is TRAIN's band."""

    name: str
    classes: tuple[str, ...]
    channels: tuple[ResolvedChannel, ...]
    units: tuple[str, ...]
    grid: Grid
    shape: WindowShape
    normal: NormalValues | None
    advice: tuple[Advice, ...] = ()

    @classmethod
    def of(
        cls,
        group: ResolvedGroup,
        classes: Sequence[str],
        units: Sequence[str],
        normal: NormalValues | None,
        advice: tuple[Advice, ...] = (),
    ) -> "GroupFacts":
        return cls(group.name, tuple(classes), group.channels, tuple(units), group.grid, group.shape, normal, advice)

    @property
    def info(self) -> GroupInfo:
        period_ms = self.grid.period_ns / NS_PER_MS
        return GroupInfo(
            name=self.name,
            classes=list(self.classes),
            channels=[channel.name for channel in self.channels],
            period_ms=period_ms,
            window_ms=period_ms * self.shape.length,
            hop_ms=period_ms * self.shape.hop,
            advice=list(self.advice),
        )


def signals_of(facts: GroupFacts, trace: Trace, state: Mapping[str, Any] | None) -> Signals:
    """`state` are the data of the asset's last published state, for what was implausible in its window."""
    values = trace.values.T  # (C, T)
    filled, mask = fill(values[None], [channel.fill for channel in facts.channels])
    start_ns, period_ns = facts.grid.time_ns(trace.start), facts.grid.period_ns
    implausible = list(_implausible(state, start_ns, period_ns, values.shape[1]))
    channels = [
        _trace(
            facts,
            at,
            values[at],
            np.where(mask[0, at] & np.isnan(values[at]), filled[0, at], np.nan),
            [*_marks(values[at], mask[0, at], trace.late[:, at]), *(m for name, m in implausible if name == own.name)],
        )
        for at, own in enumerate(facts.channels)
    ]
    return Signals.model_construct(
        start_ms=start_ns / NS_PER_MS,
        period_ms=period_ns / NS_PER_MS,
        steps=values.shape[1],
        window=_window(state, start_ns, period_ns, values.shape[1]),
        compared_with=None if facts.normal is None else facts.normal.label,
        channels=channels,
    )


def samples_since(facts: GroupFacts, asset: str, trace: Trace, first: int) -> Samples:
    """The steps from the index `first` on."""
    skip = max(first - trace.start, 0)
    values, late = trace.values[skip:].T, trace.late[skip:].T
    return Samples.model_construct(
        asset=asset,
        start_ms=facts.grid.time_ns(trace.start + skip) / NS_PER_MS,
        period_ms=facts.grid.period_ns / NS_PER_MS,
        values=[numbers(channel) for channel in values],
        late=[np.flatnonzero(channel).tolist() for channel in late],
    )


def numbers(values: Floats | NDArray[np.float64]) -> list[float | None]:
    """Six digits, null for what is missing or not finite: JSON has no other numbers."""
    return [float(f"{one:.6g}") if np.isfinite(one) else None for one in values.tolist()]


def _trace(facts: GroupFacts, at: int, values: Floats, filled: Floats, marks: list[Marked]) -> ApiTrace:
    channel, normal = facts.channels[at], _normal(facts, at)
    measured = np.flatnonzero(np.isfinite(values))
    now = float(f"{values[measured[-1]]:.6g}") if len(measured) else None
    return ApiTrace.model_construct(
        name=channel.name,
        unit=facts.units[at] if at < len(facts.units) else channel.unit,
        description=channel.description,
        range=None if channel.range is None else list(channel.range),
        normal=normal,
        values=numbers(values),
        filled=numbers(filled) if np.isfinite(filled).any() else [],
        marks=marks,
        now=now,
        direction=_direction(now, normal),
    )


def _normal(facts: GroupFacts, at: int) -> Normal | None:
    found = None if facts.normal is None else facts.normal.published(at)
    return None if found is None else Normal(mean=found["mean"], low=found["low"], high=found["high"])


def _direction(now: float | None, normal: Normal | None) -> Literal["above", "below", "within"] | None:
    if now is None or normal is None:
        return None
    return "above" if now > normal.high else "below" if now < normal.low else "within"


def _marks(values: Floats, mask: NDArray[np.bool_], late: NDArray[np.bool_]) -> Iterator[Marked]:
    missing = np.isnan(values)
    kinds: tuple[tuple[Mark, NDArray[np.bool_]], ...] = (
        ("missing", missing & ~mask),
        ("filled", missing & mask),
        ("late", late & ~missing),
    )
    for kind, where in kinds:
        for start, stop in _runs(where):
            yield Marked.model_construct(kind=kind, start=start, stop=stop, detail="")


def _runs(where: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], where, [False])).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _implausible(
    state: Mapping[str, Any] | None, start_ns: int, period_ns: int, steps: int
) -> Iterator[tuple[str, Marked]]:
    window = (state or {}).get("window")
    found = window.get("implausible", ()) if isinstance(window, Mapping) else ()
    for one in found if isinstance(found, list) else ():
        try:
            low, high = (round((parse_iso(one[name]) - start_ns) / period_ns) for name in ("start", "end"))
            low, high = max(low, 0), min(high, steps)
            if low < high:
                yield (
                    str(one["channel"]),
                    Marked(kind="implausible", start=low, stop=high, detail=str(one["finding"])),
                )
        except (KeyError, TypeError, ValueError):  # an event of another version
            continue


def _window(state: Mapping[str, Any] | None, start_ns: int, period_ns: int, steps: int) -> list[int] | None:
    window = (state or {}).get("window")
    try:
        low, high = (round((parse_iso(window[name]) - start_ns) / period_ns) for name in ("start", "end"))  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return None
    return [max(low, 0), min(high, steps)] if low < steps and high > 0 else None
