"""All members of a committee as one grouped network: tokens, routed experts that gate channels, class evidence."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.experts.geometry import Geometry
from anchormoe.experts.shape import BANDS, GAIN, WAVES, NetShape, Weights
from anchormoe.experts.tokens import Series, levels_for_members, unfold_tokens

_EPSILON = 1e-8


class MemberInputs(NamedTuple):
    """What the members read of B cases. The first axis is 1 where all members read the same."""

    x: Tensor
    """(G or 1, B, R, S) what the gates see, centred for centred members"""
    deviation: Tensor
    """(G or 1, B, R, S) from the level of the channel, which evidence is made of"""
    valid: Tensor
    """(G or 1, B, R, P)"""
    summary: Tensor
    """(G or 1, B, R, 2) medians and means"""
    present: Tensor
    """(G or 1, B, R) channels with a valid step"""
    positions: Tensor
    """(G or 1, B) positions in the length of a case, whether valid or not"""


@dataclass(frozen=True, slots=True)
class RoutedTokens:
    """What G members compute for B cases with P positions and R channels.

    The evidence of a channel is scale · Σ_m weight · κ · (opening ⊙ v) · head: linear in v,
    what was read of the channel.
    """

    tokens: Tensor
    """(G, B, P, D) e, which reads all channels"""
    routing: Tensor
    """(G, B, P, M) dense weights"""
    weight: Tensor
    """(G, B, P, M) sparse weights"""
    reliability: Tensor
    """(G, B, P, M) κ"""
    opening: Tensor
    """(G, B, P, M, V) the experts' gates, -1 to 1"""
    read: Tensor
    """(G, R, B, P, V) v, which reads one channel"""
    scale: Tensor
    """(G, R, B, P) gain × validity (× admission)"""


class CommitteeNet(nn.Module):
    """G independent members in one network: the first axis of every tensor is the member.

    Experts see all channels and open or close what was read of each channel: its deviation from its level. That
    reading has no constant, so a channel at its level, or missing, adds exactly nothing.
    """

    def __init__(self, shape: NetShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        g, r, d, v, m = shape.members, shape.read_channels, shape.width, shape.value_width, shape.experts
        kernel = shape.geometry.kernel
        self.stem = _weight(generator, g, r * kernel, d)
        self.stem_bias = _zeros(g, 1, d)
        self.place = _weight(generator, g, 2 * WAVES, d, gain=0.5)
        self.mix = _weight(generator, g, d, d, gain=0.5)
        self.mix_bias = _zeros(g, 1, d)
        self.norm = nn.Parameter(torch.ones(g, 1, d))
        self.norm_bias = _zeros(g, 1, d)
        self.router = _weight(generator, g, d, m)
        self.reliability = _weight(generator, g, d, m)
        self.reliability_bias = _zeros(g, 1, m)
        self.expert = _weight(generator, g, d, m * v)
        self.expert_bias = _zeros(g, 1, m * v)
        self.value = _weight(generator, g, r, kernel, v, gain=1 / math.sqrt(r))
        self.head = _weight(generator, g, v, shape.classes)
        self.level = _zeros(g, r, 2, shape.classes)
        self.bias = _zeros(g, shape.classes)
        if shape.spectral:
            self.bands = _weight(generator, g, r * BANDS, d, gain=0.5)
        self.level_mean: Tensor
        self.anchors: Tensor
        self.register_buffer("level_mean", torch.zeros(g, r, 2))
        self.register_buffer("anchors", torch.zeros(g, m, d))

    def forward(self, x: Tensor, deviation: Tensor, valid: Tensor, positions: Tensor) -> RoutedTokens:
        """x and deviation (G or 1, B, R, S) coarse series, valid (G or 1, B, R, P), positions (G or 1, B)."""
        tokens = self._tokens(self._unfold(x))
        routing = torch.softmax(_member_product(tokens, self.router), -1)  # (G, B, P, M)
        weight = keep_largest(routing, self.shape.chosen)
        reliability = torch.sigmoid(_member_product(tokens, self.reliability, self.reliability_bias))
        opening = torch.tanh(_member_product(tokens, self.expert, self.expert_bias))
        opening = opening.view(*routing.shape, self.shape.value_width)  # (G, B, P, M, V)
        scale = self.scale(weight, reliability, valid.transpose(1, 2), positions)
        read = self._read_channels(self._unfold(deviation))
        return RoutedTokens(tokens, routing, weight, reliability, opening, read, scale)

    def evidence(self, routed: RoutedTokens, share: Tensor) -> Tensor:
        """(G, R, B, P, Y): what each token of a channel adds to each class; `share` (G, B, P, M) of each expert."""
        opening = (routed.opening * share[..., None]).sum(-2)  # (G, B, P, V)
        rows = (routed.read * opening[:, None]).flatten(1, 3)  # (G, R·B·P, V)
        head = self.class_head()
        values = torch.bmm(rows.to(head.dtype), head)  # `rows` may have half the precision in training
        return values.view(*routed.read.shape[:4], -1) * routed.scale[..., None]

    def level_evidence(self, summary: Tensor, present: Tensor) -> Tensor:
        """(G, B, R, Y) from medians and means (G or 1, B, R, 2); exactly 0 for channels that are not present."""
        deviation = (summary - self.level_mean[:, None]) * present[..., None]
        return (deviation[..., None] * centre_classes(self.level)[:, None]).sum(-2)

    def class_head(self) -> Tensor:
        """(G, V, Y): what hidden evidence adds to each class, centred over the classes."""
        return centre_classes(self.head)

    def context(self) -> Tensor:
        """(G, Y)"""
        return centre_classes(self.bias)

    def read_index(self) -> Tensor:
        """(G, R) the channels that each member reads, as indices into `used_channels`."""
        used = torch.tensor(self.shape.used_channels)
        own = torch.tensor([self.shape.channels_of(member) for member in range(self.shape.members)])
        return torch.searchsorted(used, own).to(self.bias.device)

    def inputs(self, series: Series) -> MemberInputs:
        """What the members read of series of `used_channels`."""
        parts = (series.x, series.mask, series.level, series.valid, series.summary, series.present)
        if self.shape.read:
            index = self.read_index()
            x, mask, level, valid, summary, present = (part[:, index].transpose(0, 1) for part in parts)
        else:
            x, mask, level, valid, summary, present = (part[None] for part in parts)
        deviation = x - level[..., None] * mask
        x = levels_for_members(deviation, mask, level, self.shape.centred)
        positions = positions_in(series.length, self.shape.geometry)[None]
        return MemberInputs(x, deviation, valid, summary, present, positions)

    @classmethod
    def from_weights(cls, shape: NetShape, weights: Weights) -> "CommitteeNet":
        """A network with these weights, for inference; it shares memory with them."""
        with torch.device("meta"):  # its weights are given, so that random ones would be drawn for nothing
            net = cls(shape)
        net.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()}, assign=True)
        return net.requires_grad_(False)

    def weights(self) -> Weights:
        """Copies in the CPU's memory."""
        return {name: np.array(values.detach().cpu().numpy()) for name, values in self.state_dict().items()}

    def subset(self, members: list[int]) -> "CommitteeNet":
        """A network of some of the members, in that order."""
        shape = replace(
            self.shape,
            positioned=tuple(self.shape.positioned[m] for m in members),
            centred=tuple(self.shape.centred[m] for m in members),
            read=tuple(self.shape.read[m] for m in members) if self.shape.read else (),
        )
        with torch.device("meta"):  # its weights are loaded, so that random ones would be drawn for nothing
            net = CommitteeNet(shape)
        net.load_state_dict({name: values[members] for name, values in self.state_dict().items()}, assign=True)
        return net

    def fuse_level_scaling(self, mean: Tensor, scale: Tensor) -> None:
        """Turns weights trained on (summary − mean) / scale, both (G, R, 2), into weights for the summary itself."""
        with torch.no_grad():
            self.level.div_(scale[..., None])
            self.level_mean.copy_(mean)

    def scale(self, weight: Tensor, reliability: Tensor, valid: Tensor, positions: Tensor) -> Tensor:
        """(G or 1, R, B, P): gain × validity per position, or gain × admission if that option is set.

        A missing token takes its own evidence away and changes nothing else, because positions count missing ones.
        """
        if self.shape.admission:
            score = (weight * reliability).sum(-1) * valid.any(1)  # (G, B, P)
            admission = score / (score.sum(-1, keepdim=True) + _EPSILON)
            return GAIN * admission[:, None] * valid
        return GAIN * valid / positions.clamp(min=1)[:, None, :, None]

    def stem_start(self, positions: int) -> Tensor:
        """(G, P, D): the stem's bias, plus the position code for members that have one."""
        has_position = torch.tensor(self.shape.positioned, device=self.place.device)[:, None, None]
        place = position_code(positions, self.shape.geometry, self.place.device) @ self.place
        return self.stem_bias + place * has_position

    def _unfold(self, x: Tensor) -> Tensor:
        """(G, B, R, P, k)"""
        return unfold_tokens(x, self.shape.geometry).expand(self.shape.members, -1, -1, -1, -1)

    def _tokens(self, read: Tensor) -> Tensor:
        rows = read.transpose(2, 3)  # (G, B, P, R, k)
        token = _member_product(rows.flatten(3), self.stem)
        token = functional.gelu(token + self.stem_start(token.shape[2])[:, None])
        token = token + _member_product(token, self.mix, self.mix_bias)
        if self.shape.spectral:
            token = token + _member_product(band_energies(rows).flatten(3), self.bands)
        normal = functional.layer_norm(token, (self.shape.width,))
        return normal * self.norm[:, None] + self.norm_bias[:, None]

    def _read_channels(self, read: Tensor) -> Tensor:
        """(G, R, B, P, V)"""
        rows = read.transpose(1, 2)  # (G, R, B, P, k)
        values = torch.bmm(rows.flatten(2, 3).flatten(0, 1), self.value.flatten(0, 1))
        return self.bound(values).view(*rows.shape[:4], -1)

    def bound(self, values: Tensor) -> Tensor:
        """What is read of a channel, between -1 and 1 if that option is set."""
        return torch.tanh(values) if self.shape.bounded else values


def positions_in(length: Tensor, geometry: Geometry) -> Tensor:
    """Positions of a case of so many coarse steps."""
    return -(-length // geometry.stride)


def keep_largest(routing: Tensor, count: int) -> Tensor:
    """The `count` largest routing weights, scaled to sum to 1; the others exactly 0."""
    if count >= routing.shape[-1]:
        return routing
    order = routing.topk(count, dim=-1)
    largest = torch.zeros_like(routing).scatter(-1, order.indices, order.values)
    return largest / order.values.sum(-1, keepdim=True)


def position_code(tokens: int, geometry: Geometry, device: torch.device) -> Tensor:
    """(P, 2·WAVES) slow waves over TRAIN's length; they depend on the position alone, not on padding."""
    t = torch.arange(tokens, device=device) * (geometry.stride * geometry.pool / geometry.length)
    angle = math.pi * t[:, None] * torch.arange(1, WAVES + 1, device=device)
    return torch.cat((angle.sin(), angle.cos()), -1)


def band_energies(read: Tensor) -> Tensor:
    """(…, BANDS) of what tokens read, (…, k): log(1 + energy) in BANDS bands of equal width."""
    energy = torch.fft.rfft(read).abs().square()
    return torch.log1p(functional.adaptive_avg_pool1d(energy.flatten(0, -2)[:, None], BANDS)).view(*read.shape[:-1], -1)


def row_products(values: Tensor, weight: Tensor) -> Tensor:
    """(…, B, I) times (…, I, O), row by row: in a small matrix product the last bits depend on a row's place."""
    return (values[..., None, :] * weight.transpose(-1, -2)[..., None, :, :]).sum(-1)


def centre_classes(values: Tensor) -> Tensor:
    """Without the mean over the last axis."""
    return values - values.mean(-1, keepdim=True)


def _member_product(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(G, B, P, I) times each member's (G, I, O)."""
    flat = values.flatten(1, 2)
    out = torch.bmm(flat, weight) if bias is None else torch.baddbmm(bias, flat, weight)
    return out.view(*values.shape[:3], -1)


def _weight(generator: torch.Generator | None, *shape: int, gain: float = 1.0) -> nn.Parameter:
    """(G, …, inputs, outputs), scaled so that outputs vary about as much as inputs."""
    empty = torch.empty(shape)
    if empty.is_meta:  # only the shape: arithmetic there would import torch's compiler, which takes seconds
        return nn.Parameter(empty)
    return nn.Parameter(torch.randn(shape, generator=generator) * (gain / math.sqrt(shape[-2])))


def _zeros(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))
