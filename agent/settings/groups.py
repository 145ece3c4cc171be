"""Groups of assets of one kind: their model, their channels, their windows. Pure."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from agent.settings.environment import LocalPath
from agent.settings.problems import Problem
from agent.settings.section import AssetPattern, Count, Name, Real, Section, Slug, Whole, find_duplicates
from agent.settings.units import Duration


class Model(Section):
    """The model that classifies the windows."""

    bundle: LocalPath = Field(description="Directory of the bundle, relative to this file.")


class Channel(Section):
    """One sensor, and how its raw values become those of the model."""

    name: Name = Field(description="Name of the channel in the bundle.")
    unit: str | None = Field(default=None, description="Unit after scaling; null: that of the bundle.")
    description: Annotated[str, Field(max_length=300)] = Field(
        default="", description="What it measures, and where, in a few words for people."
    )
    range: tuple[Real, Real] | None = Field(
        default=None, description="Plausible [low, high] in `unit`, for people; not a filter. null: unknown."
    )
    field: Name | None = Field(default=None, description="Field in the records; null: the name.")
    scale: Real = Field(default=1.0, description="value = raw × scale + offset.")
    offset: Real = Field(default=0.0, description="value = raw × scale + offset.")
    fill: Literal["none", "hold", "linear"] | None = Field(
        default=None, description="How missing samples are filled; null: as in the training data of the bundle."
    )
    fill_max_age: Duration | None = Field(default=None, description="Longest gap that is filled; required with fill.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.range is not None and self.range[0] >= self.range[1]:
            yield Problem(("range",), f"{list(self.range)} is empty", "write [low, high] with low below high")
        if self.scale == 0:
            yield Problem(("scale",), "0 makes every value the same", "use another number")
        if self.fill in ("hold", "linear") and self.fill_max_age is None:
            yield Problem(("fill_max_age",), f"missing, but fill is {self.fill}", 'set it, like "2s"')
        if self.fill in ("none", None) and self.fill_max_age is not None:
            wrong = f"has no effect: fill is {'not set' if self.fill is None else 'none'}"
            yield Problem(("fill_max_age",), wrong, "use fill: hold or linear, or remove it")


class Window(Section):
    """When a window is due, and when it can be classified. A step is one period."""

    length: Count | None = Field(default=None, description="Length in steps; null: that of the bundle.")
    hop: Count | None = Field(
        default=None, description="Steps between the ends of two windows; null: an eighth of the length."
    )
    lateness: Whole = Field(default=0, ge=0, description="Steps that a window waits for late samples.")
    min_coverage: Real = Field(
        default=0.5, ge=0, le=1, description="Share of observed values below which the state is unknown."
    )
    idle_after: Duration | None = Field(
        default=None,
        description="Time without samples that is reported as a gap, and as no data; null: length + lateness.",
    )
    forget_after: Duration = Field(
        default=Duration.parse("7d"),
        description="An asset without samples expires when the others have advanced by this much.",
    )

    def broken_rules(self) -> Iterator[Problem]:
        if self.length is not None and self.hop is not None and self.hop > self.length:
            yield Problem(
                ("hop",), f"{self.hop} steps skip data between windows", f"use at most the length, {self.length}"
            )


class Hysteresis(Section):
    """A state changes when another one wins over some windows, not with a single window."""

    enabled: bool = Field(default=True, description="false: every window speaks for itself.")
    bound: Real = Field(
        default=4.0,
        gt=0,
        le=20,
        description="Log odds (nats) that another state must gather over windows, at most 3 in each; more is quieter.",
    )


class Group(Section):
    """Assets that are classified by the same model."""

    name: Slug = Field(description="Name of the group.")
    assets: tuple[AssetPattern, ...] = Field(min_length=1, description="Asset ids or patterns like pump-*.")
    model: Model = Field(description="The model that classifies them.")
    channels: tuple[Channel, ...] | None = Field(
        default=None, min_length=1, description="The channels of the model, in any order; null: as in the bundle."
    )
    period: Duration | None = Field(default=None, description="Time between two samples; null: that of the bundle.")
    rate_hz: float | None = Field(
        default=None, gt=0, le=1e9, description="Samples per second, instead of period; null: that of the bundle."
    )
    window: Window = Field(default=Window(), description="When a window is due, and when it can be classified.")
    hysteresis: Hysteresis = Field(default=Hysteresis(), description="How much it takes to change a state.")
    max_assets: Count = Field(
        default=1000,
        description="Limit of assets, over all partitions of an agent; records of further ones are dead-lettered.",
    )

    @property
    def step(self) -> Duration | None:
        """The period, stated or as a rate; whole nanoseconds."""
        return self.period if self.rate_hz is None else Duration(max(round(1e9 / self.rate_hz), 1))

    def broken_rules(self) -> Iterator[Problem]:
        yield from self._channel_rules()
        if self.period is not None and self.rate_hz is not None:
            yield Problem(("rate_hz",), "period is given as well", "remove one of the two")
        for at, later in enumerate(self.assets):
            if any(overlap(earlier, later) for earlier in self.assets[:at]):
                yield Problem(("assets", at), f"{later} overlaps with an earlier entry", "name every asset once")
        named = sum("*" not in pattern and "?" not in pattern for pattern in self.assets)
        if named > self.max_assets:
            yield Problem(("max_assets",), f"{self.max_assets}, but {named} assets are named", f"use at least {named}")

    def _channel_rules(self) -> Iterator[Problem]:
        channels = self.channels or ()
        for at, name in find_duplicates([channel.name for channel in channels]):
            yield Problem(("channels", at, "name"), f"duplicate name {name}", "name every channel once")
        for at, field in find_duplicates([channel.field or channel.name for channel in channels]):
            yield Problem(
                ("channels", at, "field"), f"{field} is the field of two channels", "give every channel its own field"
            )


@lru_cache(maxsize=4096)
def overlap(left: str, right: str) -> bool:
    """Whether an asset id can match both patterns (`*` any text, `?` one character)."""
    if not left or not right:
        return not (left + right).strip("*")
    if left[0] == "*":
        return overlap(left[1:], right) or overlap(left, right[1:])
    if right[0] == "*":
        return overlap(right, left)
    return (left[0] == right[0] or "?" in (left[0], right[0])) and overlap(left[1:], right[1:])
