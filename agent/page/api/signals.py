"""The samples of an asset. Pure."""

from typing import Literal

from agent.contracts.base import Contract, contract_field

Mark = Literal["missing", "filled", "late", "implausible"]


class Normal(Contract):
    """What TRAIN says is normal for a channel."""

    mean: float = contract_field("Mean.", unit="the channel's")
    low: float = contract_field("One value in twenty is lower.", unit="the channel's")
    high: float = contract_field("One value in twenty is higher.", unit="the channel's")


class Marked(Contract):
    """Samples that are not simply measured: steps [start, stop) of a trace."""

    kind: Mark = contract_field(
        "`missing`: no value, nor filled. `filled`: what the model got instead, in `filled`. `late`: measured, but it "
        "arrived after newer ones. `implausible`: cannot be a measurement, by the training data."
    )
    start: int = contract_field("First step.", ge=0)
    stop: int = contract_field("First step after it.", ge=0)
    detail: str = contract_field("The finding for `implausible`; else empty.", default="")


class Trace(Contract):
    """A channel of an asset, live."""

    name: str = contract_field("Name of the channel.")
    unit: str = contract_field("Unit; may be empty.")
    description: str = contract_field("What it measures, by the plant's settings; may be empty.")
    range: list[float] | None = contract_field("Plausible [low, high] by the plant's settings; null: not known.")
    normal: Normal | None = contract_field("TRAIN's band; null where it is not known.")
    values: list[float | None] = contract_field("One per step; null where nothing was measured.")
    filled: list[float | None] = contract_field("Where a missing value was filled, with what; else null. May be empty.")
    marks: list[Marked] = contract_field("What is not simply measured.")
    now: float | None = contract_field("The latest measured value.", unit="the channel's")
    direction: Literal["above", "below", "within"] | None = contract_field("`now` against the band; null: unknown.")


class Signals(Contract):
    """The last samples of an asset on its grid: step i is at start_ms + i × period_ms."""

    start_ms: float = contract_field("Time of the first step.", unit="ms")
    period_ms: float = contract_field("Time between two steps.", unit="ms")
    steps: int = contract_field("How many steps there are.", ge=0)
    window: list[int] | None = contract_field("Steps [start, stop) of the last classified window; null: not in it.")
    compared_with: str | None = contract_field("The class whose TRAIN values are called normal; null: all of TRAIN.")
    channels: list[Trace] = contract_field("In the model's order.")


class Samples(Contract):
    """Data of the SSE event `s`, for the asset of the stream: steps to append or to replace."""

    asset: str = contract_field("The asset.")
    start_ms: float = contract_field("Time of the first step here.", unit="ms")
    period_ms: float = contract_field("Time between two steps.", unit="ms")
    values: list[list[float | None]] = contract_field("Per channel, in the order of `Signals.channels`.")
    late: list[list[int]] = contract_field("Per channel, steps of this message that arrived after newer ones.")
