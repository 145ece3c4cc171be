"""The sizes of a committee's network, its tensors and what it computes, for every backend. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

from msgspec import Meta

from anchormoe.cases import Cases, Float32, Float64
from anchormoe.experts.geometry import Geometry

WAVES = 8
GAIN = 8.0
BANDS = 4

# Upper limits: products of these sizes stay within what torch can count, and far beyond any trained network.
MAX_CHANNELS = 100_000
Channels = Annotated[int, Meta(ge=1, le=MAX_CHANNELS)]
ChannelNumber = Annotated[int, Meta(ge=0, lt=MAX_CHANNELS)]
Classes = Annotated[int, Meta(ge=1, le=10_000)]
Width = Annotated[int, Meta(ge=1, le=4_096)]
Experts = Annotated[int, Meta(ge=1, le=1_024)]
MAX_MEMBERS = 256


@dataclass(frozen=True)
class NetShape:
    """Sizes of the network; which members have a position code, and whose gates see their series centred."""

    positioned: tuple[bool, ...]
    centred: tuple[bool, ...]
    channels: Channels
    """of the data"""
    read: tuple[tuple[ChannelNumber, ...], ...]
    """the channels that each member reads, in ascending order; empty if every member reads all of them"""
    classes: Classes
    width: Width
    """of a token, which the gates come from"""
    value_width: Width
    """of what is read of each channel, which the gates multiply"""
    experts: Experts
    chosen: Experts
    geometry: Geometry
    admission: bool = False
    spectral: bool = False
    bounded: bool = False
    """what is read of a channel goes through tanh, so that a large event that no class has cannot add much"""

    @property
    def members(self) -> int:
        return len(self.positioned)

    @property
    def read_channels(self) -> int:
        """Channels that a member reads."""
        return len(self.read[0]) if self.read else self.channels

    def channels_of(self, member: int) -> tuple[int, ...]:
        return self.read[member] if self.read else tuple(range(self.channels))

    @cached_property
    def used_channels(self) -> tuple[int, ...]:
        """Channels that any member reads, in ascending order."""
        return tuple(sorted({channel for own in self.read for channel in own})) or self.channels_of(0)

    def select_channels(self, cases: Cases) -> Cases:
        """The channels that any member reads."""
        if not self.read:
            return cases
        own = list(self.used_channels)
        return Cases(cases.x[:, own], cases.mask[:, own], cases.lengths)

    @property
    def has_numba_code(self) -> bool:
        """Only torch has code for the options taken from the paper."""
        return not (self.admission or self.spectral)


Weights = Mapping[str, Float32]
"""The tensors of a network by name, as a bundle stores them."""


def tensor_shapes(shape: NetShape) -> dict[str, tuple[int, ...]]:
    """Of every tensor of the network: the first axis is the member."""
    g, r, d, v, m, y = (
        shape.members, shape.read_channels, shape.width, shape.value_width, shape.experts, shape.classes,
    )  # fmt: skip
    kernel = shape.geometry.kernel
    bands = {"bands": (g, r * BANDS, d)} if shape.spectral else {}
    return bands | {
        "stem": (g, r * kernel, d), "stem_bias": (g, 1, d), "place": (g, 2 * WAVES, d),
        "mix": (g, d, d), "mix_bias": (g, 1, d), "norm": (g, 1, d), "norm_bias": (g, 1, d),
        "router": (g, d, m), "reliability": (g, d, m), "reliability_bias": (g, 1, m),
        "expert": (g, d, m * v), "expert_bias": (g, 1, m * v), "value": (g, r, kernel, v), "head": (g, v, y),
        "level": (g, r, 2, y), "bias": (g, y), "level_mean": (g, r, 2), "anchors": (g, m, d),
    }  # fmt: skip


class CommitteeOutput(NamedTuple):
    """What a committee of G members computes for B windows, for both backends.

    U units are the P positions of the tokens, then the whole window; E experts are the M routed ones, then the level.
    """

    logits: Float64
    """(G, B, Y), pooled independently of the values"""
    values: Float64
    """(G, B, U, R, Y) what each unit of a channel adds to each class"""
    expert_values: Float64
    """(G, B, U, R, E, Y)"""
    weight: Float64
    """(G, B, P, M), 0 where no channel is valid"""
    reliability: Float64
    """(G, B, P, M), 0 where no channel is valid"""
