"""Combines a group's settings with its bundle: all defaults resolved, every contradiction reported."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from agent.errors import SettingsError
from agent.settings.groups import Channel, Group
from agent.settings.problems import Problem
from agent.settings.units import Duration
from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.files import CONFIG, parse_json, read_file
from anchormoe.windows import FillRule, Grid, WindowShape, same_period


class BundleFacts(Protocol):
    """The part of a bundle's configuration that a plant may repeat; `Predictor.config` is one."""

    @property
    def channels(self) -> tuple[str, ...]: ...
    @property
    def units(self) -> tuple[str, ...]: ...
    @property
    def period_ns(self) -> int | None: ...
    @property
    def length(self) -> int: ...
    @property
    def fill(self) -> tuple[FillRule, ...]: ...


_FORGET_AFTER_WINDOWS = 2
_REBUILD_HORIZON_WINDOWS = 8
HYSTERESIS_HOPS = 32


@dataclass(frozen=True, slots=True)
class ResolvedChannel:
    """value = raw × scale + offset; `range` is in `unit`, for people, not a filter."""

    name: str
    unit: str
    field: str
    scale: float
    offset: float
    range: tuple[float, float] | None
    fill: FillRule
    description: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedGroup:
    """A group with all defaults resolved. Channels are in the model's order."""

    name: str
    assets: tuple[str, ...]
    bundle: Path
    channels: tuple[ResolvedChannel, ...]
    grid: Grid
    shape: WindowShape
    min_coverage: float
    idle_after_steps: int
    max_assets: int
    expire_after_steps: int
    hysteresis_bound: float | None = None
    """None: every window speaks for itself"""

    @property
    def memory_hops(self) -> int:
        """How many windows before it the state of a window may depend on."""
        return 1 if self.hysteresis_bound is None else HYSTERESIS_HOPS

    @property
    def channel_names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.channels)

    @property
    def fill_rules(self) -> tuple[FillRule, ...]:
        return tuple(channel.fill for channel in self.channels)

    @property
    def rebuild_horizon_steps(self) -> int:
        """Without samples for so long, an asset's windows start anew in a rebuild: there is a gap anyway."""
        return _REBUILD_HORIZON_WINDOWS * self.shape.length

    @property
    def hop_ns(self) -> int:
        return self.shape.hop * self.grid.period_ns

    def first_end_ns(self, time_ns: int) -> int:
        """The first window end at or after a time."""
        steps = -(-(time_ns - self.grid.epoch_ns) // self.hop_ns)
        return self.grid.epoch_ns + steps * self.hop_ns

    @property
    def ring_bytes(self) -> int:
        """Memory of the windows with `max_assets` assets: twice the size of the samples."""
        steps = self.shape.length + self.shape.hop + self.shape.lateness
        return 2 * steps * len(self.channels) * 4 * self.max_assets

    def has(self, asset: str) -> bool:
        return any(fnmatchcase(asset, pattern) for pattern in self.assets)


def read_facts(directory: Path) -> BundleConfig:
    """Reads config.json alone, without torch; the rest is checked when the model is loaded. Raises ModelError."""
    return BundleConfig.from_dict(parse_json(read_file(directory, CONFIG), CONFIG), digest="")


def reconcile(group: Group, facts: BundleFacts) -> ResolvedGroup:
    """Raises SettingsError with every contradiction between the plant and the bundle."""
    if problems := list(differences(group, facts)):
        raise SettingsError([f"group {group.name}: {problem}" for problem in problems])
    return _resolve(group, facts)


def differences(group: Group, facts: BundleFacts) -> Iterator[Problem]:
    """Where the plant contradicts the bundle, or does not set what the bundle lacks. Paths start at the group."""
    yield from _channel_differences(group.channels or (), facts)
    yield from _length_differences(group, facts)
    yield from _period_differences(group, facts)
    yield from _expiry_differences(group, facts)


def _channel_differences(channels: tuple[Channel, ...], facts: BundleFacts) -> Iterator[Problem]:
    names = tuple(channel.name for channel in channels)
    if names and set(names) != set(facts.channels):
        stated, known = ", ".join(names), ", ".join(facts.channels)
        yield Problem(
            ("channels",), f"the plant has {stated}; the bundle has {known}", "name the channels of the bundle"
        )
    units = dict(zip(facts.channels, facts.units, strict=True))
    for at, channel in enumerate(channels):
        known = units.get(channel.name, "")
        if known and channel.unit not in (None, known):
            wrong = f"the plant has {channel.unit}; the bundle has {known}"
            yield Problem(("channels", at, "unit"), wrong, f"convert with scale and offset, and write {known}")


def _length_differences(group: Group, facts: BundleFacts) -> Iterator[Problem]:
    window = group.window
    if window.length not in (None, facts.length):
        wrong = f"the plant has {window.length} steps; the bundle has {facts.length}"
        yield Problem(("window", "length"), wrong, f"remove it, or write {facts.length}")
    if window.length is None and window.hop is not None and window.hop > facts.length:
        wrong = f"{window.hop} steps skip data between windows"
        yield Problem(("window", "hop"), wrong, f"use at most the length of the bundle, {facts.length}")


def _period_differences(group: Group, facts: BundleFacts) -> Iterator[Problem]:
    stated, known = group.step, facts.period_ns
    where = ("period",) if group.rate_hz is None else ("rate_hz",)
    if stated is None and known is None:
        yield Problem(("period",), "missing, and the bundle has none", 'set it, like "100ms"')
    elif stated is not None and known is not None and not same_period(stated, known):
        wrong = f"the plant has {stated}; the bundle has {Duration(known)}"
        yield Problem(where, wrong, f"remove it, or write period: {Duration(known)}")
    else:
        yield from _shorter_than_a_step(group, int(known or stated or 0))


def _shorter_than_a_step(group: Group, period_ns: int) -> Iterator[Problem]:
    idle_after, lateness = group.window.idle_after, group.window.lateness
    if idle_after is not None and idle_after // period_ns <= lateness:
        least = Duration((lateness + 1) * period_ns)
        wrong = f"{idle_after} is not longer than the lateness of {lateness} steps"
        yield Problem(("window", "idle_after"), wrong, f"use at least {least}")
    for at, channel in enumerate(group.channels or ()):
        if channel.fill_max_age is not None and channel.fill_max_age < period_ns:
            wrong = f"{channel.fill_max_age} is shorter than the period, so nothing would be filled"
            yield Problem(("channels", at, "fill_max_age"), wrong, f"use at least {Duration(period_ns)}")


def _expiry_differences(group: Group, facts: BundleFacts) -> Iterator[Problem]:
    """An asset must not expire while windows with its samples may still be due."""
    window, period_ns = group.window, int(facts.period_ns or group.step or 0)
    least = Duration(_FORGET_AFTER_WINDOWS * (facts.length + window.lateness) * period_ns)
    if window.forget_after < least:
        wrong = f"{window.forget_after} is shorter than {_FORGET_AFTER_WINDOWS} windows"
        yield Problem(("window", "forget_after"), wrong, f"use at least {least}")


def _resolve(group: Group, facts: BundleFacts) -> ResolvedGroup:
    grid = Grid(int(facts.period_ns or group.step or 0))
    window = group.window
    shape = WindowShape(facts.length, window.hop or max(1, facts.length // 8), window.lateness)
    default_idle_steps = shape.length + shape.lateness
    return ResolvedGroup(
        name=group.name,
        assets=group.assets,
        bundle=group.model.bundle,
        channels=_resolve_channels(group, facts, grid.period_ns),
        grid=grid,
        shape=shape,
        min_coverage=window.min_coverage,
        idle_after_steps=default_idle_steps if window.idle_after is None else window.idle_after // grid.period_ns,
        expire_after_steps=window.forget_after // grid.period_ns,
        max_assets=group.max_assets,
        hysteresis_bound=group.hysteresis.bound if group.hysteresis.enabled else None,
    )


def _resolve_channels(group: Group, facts: BundleFacts, period_ns: int) -> tuple[ResolvedChannel, ...]:
    stated = {channel.name: channel for channel in group.channels or ()}
    rules = facts.fill or (FillRule(),) * len(facts.channels)
    known = zip(facts.channels, facts.units, rules, strict=True)
    return tuple(
        _resolve_channel(stated.get(name) or Channel(name=name), unit, rule, period_ns) for name, unit, rule in known
    )


def _resolve_channel(channel: Channel, unit: str, rule: FillRule, period_ns: int) -> ResolvedChannel:
    """Missing samples are filled as in the training data unless the plant sets another rule."""
    if channel.fill is not None:
        rule = FillRule(channel.fill, (channel.fill_max_age or 0) // period_ns)
    return ResolvedChannel(
        name=channel.name,
        unit=channel.unit or unit,
        field=channel.field or channel.name,
        scale=channel.scale,
        offset=channel.offset,
        range=channel.range,
        fill=rule,
        description=channel.description,
    )
