"""All members of a committee as one grouped network: tokens, routed experts, reliability gates, class evidence."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import torch
from msgspec import Meta
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.cases import Float64
from anchormoe.experts.tokens import Geometry, unfold_tokens

WAVES = 8
GAIN = 8.0
BANDS = 4
MAX_CHANNELS = 96
MIXED_CHANNELS = 48
"""More than MAX_CHANNELS channels are first mixed down to so many; otherwise tokens would need millions of weights."""
_EPSILON = 1e-8

# Upper limits: products of these sizes stay within what torch can count, and far beyond any trained network.
Channels = Annotated[int, Meta(ge=1, le=100_000)]
Classes = Annotated[int, Meta(ge=1, le=10_000)]
Width = Annotated[int, Meta(ge=1, le=4_096)]
Experts = Annotated[int, Meta(ge=1, le=1_024)]
MAX_MEMBERS = 256


@dataclass(frozen=True, slots=True)
class NetShape:
    """Sizes of the network; which members have a position code, and which see their series centred."""

    positioned: tuple[bool, ...]
    centred: tuple[bool, ...]
    channels: Channels
    classes: Classes
    width: Width
    experts: Experts
    chosen: Experts
    geometry: Geometry
    admission: bool = False
    spectral: bool = False

    @property
    def members(self) -> int:
        return len(self.positioned)

    @property
    def read_channels(self) -> int:
        """Channels that tokens read."""
        return MIXED_CHANNELS if self.mixes else self.channels

    @property
    def mixes(self) -> bool:
        """Whether channels are mixed before tokens read them."""
        return self.channels > MAX_CHANNELS

    @property
    def has_numba_code(self) -> bool:
        """Only torch has code for the options taken from the paper and for mixing channels."""
        return not (self.admission or self.spectral or self.mixes)


@dataclass(frozen=True, slots=True)
class RoutedTokens:
    """Per member and token: e (G, B, P, D), dense and sparse routing weights and κ (G, B, P, M), expert outputs.

    `scale` (G, B, P) is gain × validity (× admission); an expert's evidence is scale · weight · κ · z.
    """

    tokens: Tensor
    routing: Tensor
    weight: Tensor
    reliability: Tensor
    hidden: Tensor
    """(G, B, P, M, D)"""
    expert_logits: Tensor
    """(G, B, P, M, Y), before the gates"""
    scale: Tensor

    @property
    def gate(self) -> Tensor:
        """(G, B, P, M): the factor of each expert's output."""
        return self.weight * self.reliability * self.scale[..., None]


class CommitteeOutput(NamedTuple):
    """What a committee of G members computes for B windows with P tokens, for both backends."""

    logits: Float64
    """(G, B, Y), pooled independently of the values"""
    context: Float64
    """(G, B, Y)"""
    values: Float64
    """(G, B, P, Y) what each token adds to each class"""
    expert_values: Float64
    """(G, B, P, M, Y)"""
    weight: Float64
    """(G, B, P, M), 0 where the token is not valid"""
    reliability: Float64
    """(G, B, P, M), 0 where the token is not valid"""


class CommitteeNet(nn.Module):
    """G independent members in one network: the first axis of every parameter is the member."""

    def __init__(self, shape: NetShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        g, d, m = shape.members, shape.width, shape.experts
        read = shape.read_channels
        if shape.mixes:
            self.channel_mix = _weight(generator, g, shape.channels, read)
        self.stem = _weight(generator, g, read * shape.geometry.kernel, d)
        self.stem_bias = _zeros(g, 1, d)
        self.place = _weight(generator, g, 2 * WAVES, d, gain=0.5)
        self.mix = _weight(generator, g, d, d, gain=0.5)
        self.mix_bias = _zeros(g, 1, d)
        self.norm = nn.Parameter(torch.ones(g, 1, d))
        self.norm_bias = _zeros(g, 1, d)
        self.router = _weight(generator, g, d, m)
        self.expert = _weight(generator, g, d, m * d)
        self.expert_bias = _zeros(g, 1, m * d)
        self.reliability = nn.Parameter(_normal(generator, g, m, d, divisor=math.sqrt(d)))
        self.reliability_bias = _zeros(g, m)
        self.head = _weight(generator, g, d, shape.classes)
        self.summary = _zeros(g, 2 * shape.channels, shape.classes)
        self.bias = _zeros(g, shape.classes)
        if shape.spectral:
            self.bands = _weight(generator, g, read * BANDS, d, gain=0.5)

    def forward(self, x: Tensor, valid: Tensor) -> RoutedTokens:
        """x (G or 1, B, C, S) coarse series, valid (G or 1, B, P)."""
        if self.shape.mixes:
            x = torch.matmul(self.channel_mix.transpose(1, 2)[:, None], x)
        return self.forward_mixed(x, valid)

    def forward_mixed(self, x: Tensor, valid: Tensor) -> RoutedTokens:
        """For series whose channels are already mixed, (G or 1, B, R, S)."""
        tokens = self._tokens(x)
        routing = torch.softmax(_member_product(tokens, self.router), -1)  # (G, B, P, M)
        weight = keep_largest(routing, self.shape.chosen)
        hidden = functional.silu(_member_product(tokens, self.expert, self.expert_bias))
        hidden = hidden.view(*weight.shape, self.shape.width)  # (G, B, P, M, D)
        expert_logits, reliability = self._heads(hidden)
        scale = self.scale(weight, reliability, valid)
        return RoutedTokens(tokens, routing, weight, reliability, hidden, expert_logits, scale)

    def context(self, summary: Tensor) -> Tensor:
        """(G, B, Y) from the medians and means of the series, (G or 1, B, 2·C)."""
        return centre_classes(row_products(summary, self.summary) + self.bias[:, None])

    def class_head(self) -> Tensor:
        """(G, D, Y): what hidden evidence adds to each class, centred over the classes."""
        return centre_classes(self.head)

    def _heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Expert logits (G, B, P, M, Y) and κ (G, B, P, M); both are linear in z, so one product gives both."""
        heads = torch.cat((self.class_head(), self.reliability.transpose(1, 2)), -1)  # (G, D, Y + M)
        both = torch.bmm(hidden.flatten(1, 3), heads).view(*hidden.shape[:4], -1)
        reliability = both[..., self.shape.classes :].diagonal(dim1=-2, dim2=-1)  # (G, B, P, M)
        return both[..., : self.shape.classes], torch.sigmoid(reliability + self.reliability_bias[:, None, None])

    def subset(self, members: list[int]) -> "CommitteeNet":
        """A network of some of the members, in that order."""
        flags = {name: tuple(getattr(self.shape, name)[m] for m in members) for name in ("positioned", "centred")}
        net = CommitteeNet(replace(self.shape, positioned=flags["positioned"], centred=flags["centred"]))
        net.load_state_dict({name: values[members] for name, values in self.state_dict().items()})
        return net.to(self.bias.device)

    def fuse_summary_scaling(self, mean: Tensor, scale: Tensor) -> None:
        """Turns weights trained on (summary − mean) / scale into weights for the summary itself."""
        with torch.no_grad():
            self.summary.div_(scale[:, None])
            self.bias.sub_(mean @ self.summary)

    def mix_channels(self, cases: list[list[Tensor]]) -> Tensor:
        """(G, B, R, S) from each member's cases (C, S), with one product per case, so that no case is copied."""
        mixes = self.channel_mix.transpose(1, 2)  # (G, R, C)
        return torch.stack([torch.stack([mix @ x for x in each]) for mix, each in zip(mixes, cases, strict=True)])

    def mix_noise(self, noise: Tensor) -> Tensor:
        """Noise (G, B, R, S) distributed as if it had been added to all C channels before the mix.

        It then has the covariance WᵀW, so it is multiplied by a root of that; the gradient is the same on average.
        """
        if not self.shape.mixes:
            return noise
        mix = self.channel_mix.double()
        squares = mix.transpose(1, 2) @ mix  # (G, R, R)
        least = 1e-6 * squares.diagonal(dim1=1, dim2=2).mean(1)  # keeps the matrix positive definite
        root = torch.linalg.cholesky(squares + torch.diag_embed(least[:, None].expand(-1, squares.shape[1])))
        return torch.matmul(root.float()[:, None], noise)

    def _tokens(self, x: Tensor) -> Tensor:
        read = unfold_tokens(x, self.shape.geometry)  # (G, B, P, C·k)
        token = _member_product(read, self.stem, self.stem_bias)
        token = functional.gelu(token + self._position(token.shape[2])[:, None])
        token = token + _member_product(token, self.mix, self.mix_bias)
        if self.shape.spectral:
            token = token + _member_product(band_energies(read, self.shape), self.bands)
        normal = functional.layer_norm(token, (self.shape.width,))
        return normal * self.norm[:, None] + self.norm_bias[:, None]

    def _position(self, tokens: int) -> Tensor:
        """(G, P, D), 0 for members without a position code."""
        has_position = torch.tensor(self.shape.positioned, device=self.place.device)[:, None, None]
        return position_code(tokens, self.shape.geometry, self.place.device) @ self.place * has_position

    def scale(self, weight: Tensor, reliability: Tensor, valid: Tensor) -> Tensor:
        """(G, B, P): gain × validity, or gain × admission if that option is set."""
        if self.shape.admission:
            score = (weight * reliability).sum(-1) * valid
            return GAIN * score / (score.sum(-1, keepdim=True) + _EPSILON)
        return GAIN * valid / valid.sum(-1, keepdim=True).clamp(min=1)


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


def band_energies(read: Tensor, shape: NetShape) -> Tensor:
    """(…, P, C·BANDS): log(1 + energy) of what a token reads, in BANDS bands of equal width."""
    taps = read.reshape(-1, shape.read_channels, shape.geometry.kernel)
    energy = torch.fft.rfft(taps).abs().square()  # (…, C, F)
    return torch.log1p(functional.adaptive_avg_pool1d(energy, BANDS)).view(*read.shape[:-1], -1)


def row_products(values: Tensor, weight: Tensor) -> Tensor:
    """(G or 1, B, I) times (G, I, O), row by row: in a small matrix product the last bits depend on a row's place."""
    return (values[:, :, None] * weight.transpose(1, 2)[:, None]).sum(-1)


def centre_classes(values: Tensor) -> Tensor:
    """Without the mean over the last axis."""
    return values - values.mean(-1, keepdim=True)


def _member_product(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(G or 1, B, P, I) times each member's (G, I, O)."""
    flat = values.flatten(1, 2).expand(len(weight), -1, -1)
    out = torch.bmm(flat, weight) if bias is None else torch.baddbmm(bias, flat, weight)
    return out.view(len(weight), *values.shape[1:3], -1)


def _weight(generator: torch.Generator | None, *shape: int, gain: float = 1.0) -> nn.Parameter:
    """(G, inputs, outputs), scaled so that outputs vary about as much as inputs."""
    return nn.Parameter(_normal(generator, *shape, scale=gain / math.sqrt(shape[1])))


def _normal(generator: torch.Generator | None, *shape: int, scale: float = 1.0, divisor: float = 1.0) -> Tensor:
    """Only the shape on the meta device: arithmetic there would import torch's compiler, which takes seconds."""
    empty = torch.empty(shape)
    return empty if empty.is_meta else torch.randn(shape, generator=generator) * scale / divisor


def _zeros(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))
