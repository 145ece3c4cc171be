"""All members of a committee as one grouped network: tokens, routed experts, reliability gates, class evidence."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from anchormoe.conversion import Size
from anchormoe.experts.tokens import Geometry, windows

WAVES = 8
GAIN = 8.0
BANDS = 4
MAX_CHANNELS = 96
MIXED_CHANNELS = 48
"""With more than MAX_CHANNELS every step is first mixed down to so many, or the tokens' weights would be millions."""
_EPSILON = 1e-8


@dataclass(frozen=True, slots=True)
class NetShape:
    """Sizes of the network, which members know the place of a token, and which see their series centred."""

    positioned: tuple[bool, ...]
    centred: tuple[bool, ...]
    channels: Size
    classes: Size
    width: Size
    experts: Size
    chosen: Size
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
        """Channels are mixed before tokens read them."""
        return self.channels > MAX_CHANNELS

    @property
    def has_numba_code(self) -> bool:
        """The options taken from the paper and the mix of many channels are computed by torch only."""
        return not (self.admission or self.spectral or self.mixes)


@dataclass(frozen=True, slots=True)
class Routed:
    """Per member and token: e (G, B, P, D), dense routing and its chosen weights (G, B, P, M), gates, expert outputs.

    `scale` (G, B, P) is gain × validity (× admission); an expert's evidence is scale · weight · κ · z.
    """

    tokens: Tensor
    routing: Tensor
    weight: Tensor
    reliability: Tensor
    hidden: Tensor
    """(G, B, P, M, D)"""
    opinions: Tensor
    """(G, B, P, M, Y): what each expert's output says for each class, before its gate"""
    scale: Tensor

    @property
    def gate(self) -> Tensor:
        """(G, B, P, M): how much of each expert's output counts."""
        return self.weight * self.reliability * self.scale[..., None]


class CommitteeNet(nn.Module):
    """G independent members; every parameter's first axis is the member, so that one pass serves all."""

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
        self.reliability = nn.Parameter(torch.randn((g, m, d), generator=generator) / math.sqrt(d))
        self.reliability_bias = _zeros(g, m)
        self.head = _weight(generator, g, d, shape.classes)
        self.summary = _zeros(g, 2 * shape.channels, shape.classes)
        self.bias = _zeros(g, shape.classes)
        if shape.spectral:
            self.bands = _weight(generator, g, read * BANDS, d, gain=0.5)

    def forward(self, x: Tensor, valid: Tensor) -> Routed:
        """x (G or 1, B, C, S) coarse series, valid (G or 1, B, P)."""
        if self.shape.mixes:
            x = torch.matmul(self.channel_mix.transpose(1, 2)[:, None], x)
        return self.routed(x, valid)

    def routed(self, x: Tensor, valid: Tensor) -> Routed:
        """The same for series whose channels are mixed already, (G or 1, B, R, S)."""
        tokens = self._tokens(x)
        routing = torch.softmax(_members(tokens, self.router), -1)  # (G, B, P, M)
        weight = sparse(routing, self.shape.chosen)
        hidden = functional.silu(_members(tokens, self.expert, self.expert_bias))
        hidden = hidden.view(*weight.shape, self.shape.width)  # (G, B, P, M, D)
        opinions, reliability = self._read_out(hidden)
        scale = self.scale(weight, reliability, valid)
        return Routed(tokens, routing, weight, reliability, hidden, opinions, scale)

    def context(self, summary: Tensor) -> Tensor:
        """(G, B, Y) from the medians and means of the series, (G or 1, B, 2·C)."""
        return centred(apart(summary, self.summary) + self.bias[:, None])

    def class_head(self) -> Tensor:
        """(G, D, Y): what hidden evidence adds to each class, centred over the classes."""
        return centred(self.head)

    def _read_out(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Opinions (G, B, P, M, Y) and reliabilities (G, B, P, M): both are linear in z, so one product serves both."""
        directions = torch.cat((self.class_head(), self.reliability.transpose(1, 2)), -1)  # (G, D, Y + M)
        both = torch.bmm(hidden.flatten(1, 3), directions).view(*hidden.shape[:4], -1)
        heads = both[..., self.shape.classes :].diagonal(dim1=-2, dim2=-1)  # (G, B, P, M)
        return both[..., : self.shape.classes], torch.sigmoid(heads + self.reliability_bias[:, None, None])

    def subset(self, members: list[int]) -> "CommitteeNet":
        """A network of some of the members, in that order."""
        flags = {name: tuple(getattr(self.shape, name)[m] for m in members) for name in ("positioned", "centred")}
        net = CommitteeNet(replace(self.shape, positioned=flags["positioned"], centred=flags["centred"]))
        net.load_state_dict({name: values[members] for name, values in self.state_dict().items()})
        return net.to(self.bias.device)

    def fold_summaries(self, mean: Tensor, scale: Tensor) -> None:
        """Makes weights that were trained on (summary − mean) / scale those of the summary itself."""
        with torch.no_grad():
            self.summary.div_(scale[:, None])
            self.bias.sub_(mean @ self.summary)

    def mixed(self, cases: list[list[Tensor]]) -> Tensor:
        """(G, B, R, S) of each member's own cases (C, S): one product per case, so that none is copied for it."""
        mixes = self.channel_mix.transpose(1, 2)  # (G, R, C)
        return torch.stack([torch.stack([mix @ x for x in own]) for mix, own in zip(mixes, cases, strict=True)])

    def mixed_noise(self, noise: Tensor) -> Tensor:
        """(G, B, R, S) independent noise as what it had become, had it been added to all C channels before the mix.

        That is noise with the covariance WᵀW, and its root is all it takes: the gradient is the same on average.
        """
        if not self.shape.mixes:
            return noise
        mix = self.channel_mix.double()
        squares = mix.transpose(1, 2) @ mix  # (G, R, R)
        least = 1e-6 * squares.diagonal(dim1=1, dim2=2).mean(1)  # so that directions may vanish
        root = torch.linalg.cholesky(squares + torch.diag_embed(least[:, None].expand(-1, squares.shape[1])))
        return torch.matmul(root.float()[:, None], noise)

    def _tokens(self, x: Tensor) -> Tensor:
        read = windows(x, self.shape.geometry)  # (G, B, P, C·k)
        token = _members(read, self.stem, self.stem_bias)
        token = functional.gelu(token + self._place(token.shape[2])[:, None])
        token = token + _members(token, self.mix, self.mix_bias)
        if self.shape.spectral:
            token = token + _members(band_energies(read, self.shape), self.bands)
        normal = functional.layer_norm(token, (self.shape.width,))
        return normal * self.norm[:, None] + self.norm_bias[:, None]

    def _place(self, tokens: int) -> Tensor:
        """(G, P, D), 0 for members that do not know the place."""
        knows = torch.tensor(self.shape.positioned, device=self.place.device)[:, None, None]
        return places(tokens, self.shape.geometry, self.place.device) @ self.place * knows

    def scale(self, weight: Tensor, reliability: Tensor, valid: Tensor) -> Tensor:
        """(G, B, P): gain × validity, times the admission where there is one."""
        if self.shape.admission:
            score = (weight * reliability).sum(-1) * valid
            return GAIN * score / (score.sum(-1, keepdim=True) + _EPSILON)
        return GAIN * valid / valid.sum(-1, keepdim=True).clamp(min=1)


def sparse(routing: Tensor, chosen: int) -> Tensor:
    """The `chosen` largest routing weights, scaled to sum to 1; the others exactly 0."""
    if chosen >= routing.shape[-1]:
        return routing
    order = routing.topk(chosen, dim=-1)
    kept = torch.zeros_like(routing).scatter(-1, order.indices, order.values)
    return kept / order.values.sum(-1, keepdim=True)


def places(tokens: int, geometry: Geometry, device: torch.device) -> Tensor:
    """(P, 2·WAVES) slow waves over TRAIN's length; they depend on the place alone, not on the padding."""
    t = torch.arange(tokens, device=device) * (geometry.stride * geometry.pool / geometry.length)
    angle = math.pi * t[:, None] * torch.arange(1, WAVES + 1, device=device)
    return torch.cat((angle.sin(), angle.cos()), -1)


def band_energies(read: Tensor, shape: NetShape) -> Tensor:
    """(…, P, C·BANDS): log(1 + energy) of what a token reads, in BANDS bands of equal width."""
    taps = read.reshape(-1, shape.read_channels, shape.geometry.kernel)
    energy = torch.fft.rfft(taps).abs().square()  # (…, C, F)
    return torch.log1p(functional.adaptive_avg_pool1d(energy, BANDS)).view(*read.shape[:-1], -1)


def apart(values: Tensor, weight: Tensor) -> Tensor:
    """(G or 1, B, I) times (G, I, O), sum by sum: the last bits of a small matrix product depend on a row's place."""
    return (values[:, :, None] * weight.transpose(1, 2)[:, None]).sum(-1)


def centred(values: Tensor) -> Tensor:
    return values - values.mean(-1, keepdim=True)


def _members(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(G or 1, B, P, I) times each member's (G, I, O)."""
    flat = values.flatten(1, 2).expand(len(weight), -1, -1)
    out = torch.bmm(flat, weight) if bias is None else torch.baddbmm(bias, flat, weight)
    return out.view(len(weight), *values.shape[1:3], -1)


def _weight(generator: torch.Generator | None, *shape: int, gain: float = 1.0) -> nn.Parameter:
    """(G, inputs, outputs), scaled so that outputs vary about as much as inputs."""
    return nn.Parameter(torch.randn(shape, generator=generator) * (gain / math.sqrt(shape[1])))


def _zeros(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))
