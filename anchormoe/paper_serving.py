"""The paper's net for inference: folded weights, chosen experts only, the same bits wherever a window stands.

A row of a matrix product gets the same bits whatever the other rows are, as long as rows and columns come without
remainders: so patches come in multiples of eight per window, so do the rows given to an expert, and narrow outputs
(router, heads, classes) are filled up with columns of zeros.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.mvre import centroid_share, fourier_basis, position_code
from anchormoe.paper_config import EPSILON, ModelConfig
from anchormoe.paper_net import PaperNet
from anchormoe.paper_output import Output
from anchormoe.rgc import assign

ROWS = 8
"""Rows of every matrix product come in multiples of this."""

COLUMNS = 8
"""And so do columns."""

BANDS = 4
"""Bands are filled up less far: an empty band costs an input of the spectral view for every channel."""


@dataclass(frozen=True, slots=True)
class _Folded:
    """Weights as (inputs, outputs), with everything folded that is linear."""

    embedding: Tensor
    embedding_bias: Tensor
    router: Tensor
    router_bias: Tensor
    expert_in: list[Tensor]
    expert_in_bias: list[Tensor]
    heads: list[Tensor]
    heads_bias: list[Tensor]
    expert_out: Tensor
    expert_out_bias: Tensor
    class_head: Tensor


@dataclass(frozen=True, slots=True)
class _Views:
    """What MVRE needs beyond the token."""

    temporal: Tensor
    temporal_bias: Tensor
    spectral: Tensor
    context: Tensor
    context_bias: Tensor
    gate_temporal: float
    gate_context: float
    waves: Tensor
    bands: Tensor


class ServingNet:
    """`PaperNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    def __init__(self, net: PaperNet) -> None:
        self.config: ModelConfig = net.config
        with torch.inference_mode():
            self._norms = _norms(net)
            self._weights = _fold(net)
            self._views = _fold_views(net) if net.config.use_mvre else None

    @torch.inference_mode()
    def forward(self, x: Tensor, mask: Tensor) -> Output:
        """x (B, C, T) float32, 0 where masked; mask (B, C, T) boolean. B ≥ 1."""
        grid = self.config.grid
        P = grid.count(x.shape[2])
        valid = grid.valid(mask, ROWS)
        patches = grid.cut(x, ROWS)  # (B, P', C·L)
        unit = self._units(patches, valid)
        return _first_patches(self._compose(unit, valid), P)

    def _units(self, patches: Tensor, valid: Tensor) -> Tensor:
        """e (B, P', D)."""
        D = self.config.width
        rows = patches.flatten(0, 1)
        token = torch.addmm(self._weights.embedding_bias, rows, self._weights.embedding)
        token = functional.layer_norm(token, (D,), *self._norms[0]).view(*valid.shape, D)
        token = token.add_(position_code(valid.shape[1], D).to(token))
        if self._views is None:
            return token
        return self._fuse(self._views, token, rows, valid)

    def _fuse(self, views: _Views, token: Tensor, rows: Tensor, valid: Tensor) -> Tensor:
        """The sum under the LayerNorm of Eq. fusion, with the spectral gate and all biases folded."""
        D = self.config.width
        refined = functional.gelu(torch.addmm(views.temporal_bias, token.view(-1, D), views.temporal))
        fused = torch.add(token.view(-1, D), refined, alpha=views.gate_temporal)
        spectrum = rows.reshape(-1, self.config.patch_length) @ views.waves
        energy = spectrum.square_() @ views.bands
        fused.addmm_(energy.log1p_().view(rows.shape[0], -1), views.spectral)
        centroid = torch.bmm(centroid_share(valid, token), token)  # (B, 1, D)
        # Not a matrix product: a single window would take another path than a batch. 1/√D is folded into the weight.
        r = (token * centroid).sum(dim=-1, keepdim=True)  # (B, P', 1)
        context = functional.gelu(torch.addcmul(views.context_bias, r, views.context))
        fused.add_(context.view(-1, D), alpha=views.gate_context)
        return functional.layer_norm(fused, (D,), *self._norms[1]).view(*valid.shape, D)

    def _compose(self, unit: Tensor, valid: Tensor) -> Output:
        config, weights = self.config, self._weights
        rows = unit.flatten(0, 1)
        weight, expert = self._route(rows, valid)
        pairs = assign(expert, valid, config.experts)
        chosen = _with_spare_rows(rows.index_select(0, pairs.pair // config.top_k))
        hidden = functional.gelu(_by_expert(chosen, weights.expert_in, weights.expert_in_bias, pairs.counts))
        heads = _by_expert(hidden, weights.heads, weights.heads_bias, pairs.counts)
        spread = heads.new_zeros(expert.numel(), heads.shape[1])
        spread.index_copy_(0, pairs.pair, heads[: len(pairs.pair)])
        spread = spread.view(*expert.shape, -1)
        score, admission, reliability = self._admit(weight, spread[..., config.classes], valid)
        gate = admission.unsqueeze(-1) * weight * reliability  # π w κ (B, P', K)
        logits = spread[..., : config.classes]
        return Output(
            logits=self._pooled(hidden[: len(pairs.pair)], gate, pairs.pair, pairs.expert),
            contributions=(gate.unsqueeze(-1) * logits).sum(dim=2),
            expert=expert,
            expert_logits=logits,
            weight=weight,
            reliability=reliability,
            score=score,
            admission=admission,
            valid=valid,
        )

    def _route(self, rows: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """w and the chosen experts (B, P', K); probabilities renormalised over the top K are their softmax."""
        scores = torch.addmm(self._weights.router_bias, rows, self._weights.router)[:, : self.config.experts]
        top, expert = scores.topk(self.config.top_k, dim=-1)
        odds = (top - top[:, :1]).exp_()
        weight = odds / odds.sum(dim=-1, keepdim=True)
        shape = (*valid.shape, self.config.top_k)
        return weight.view(shape) * valid.unsqueeze(-1), expert.view(shape)

    def _admit(self, weight: Tensor, trust: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        m = valid.to(weight.dtype)
        if not self.config.use_rgc:
            return m, m / m.sum(dim=1, keepdim=True).clamp_min_(1), m.unsqueeze(-1).expand_as(weight)
        # Written out, because torch.sigmoid differs in the last bit at the end of an array.
        reliability = m.unsqueeze(-1) / trust.neg().exp_().add_(1)
        score = (weight * reliability).sum(dim=-1)
        return score, score / (score.sum(dim=1, keepdim=True) + EPSILON), reliability

    def _pooled(self, hidden: Tensor, gate: Tensor, pair: Tensor, expert: Tensor) -> Tensor:
        """u (B, Y), as in RGC, with the windows padded to a multiple of eight rows."""
        B, P, K = gate.shape
        M, D = self.config.experts, self.config.width
        padded = -(-B // ROWS) * ROWS
        share = gate.flatten().index_select(0, pair)
        slot = (pair // (P * K)).mul_(M).add_(expert)
        pooled = hidden.new_zeros(padded * M, D).index_add_(0, slot, hidden * share.unsqueeze(1))
        mass = hidden.new_zeros(padded * M).index_add_(0, slot, share).view(padded, M)
        z = torch.addmm(mass @ self._weights.expert_out_bias, pooled.view(padded, M * D), self._weights.expert_out)
        return (z @ self._weights.class_head)[:B, : self.config.classes]


def _by_expert(rows: Tensor, weight: list[Tensor], bias: list[Tensor], counts: list[int]) -> Tensor:
    """rows (N + 8, I) → (N + 8, O). A group rounded up to eight rows runs into the next one, which overwrites it."""
    out = rows.new_zeros(rows.shape[0], weight[0].shape[1])
    start = 0
    for expert, count in enumerate(counts):
        if count:
            stop = start + -(-count // ROWS) * ROWS
            torch.addmm(bias[expert], rows[start:stop], weight[expert], out=out[start:stop])
        start += count
    return out


def _with_spare_rows(rows: Tensor) -> Tensor:
    return functional.pad(rows, (0, 0, 0, ROWS))


def _first_patches(output: Output, P: int) -> Output:
    """Without the patches that only filled the multiple of eight."""
    return Output(
        logits=output.logits,
        contributions=output.contributions[:, :P],
        expert=output.expert[:, :P],
        expert_logits=output.expert_logits[:, :P],
        weight=output.weight[:, :P],
        reliability=output.reliability[:, :P],
        score=output.score[:, :P],
        admission=output.admission[:, :P],
        valid=output.valid[:, :P],
    )


def _norms(net: PaperNet) -> list[tuple[Tensor, Tensor]]:
    layers = [net.mvre.embedding_norm] + ([net.mvre.norm] if net.config.use_mvre else [])
    return [(layer.weight.clone(), layer.bias.clone()) for layer in layers]


def _fold(net: PaperNet) -> _Folded:
    M, D = net.config.experts, net.config.width
    router = net.dpar.router.weight @ net.dpar.query.weight  # ψ_g ∘ ψ_q, both linear
    router_bias = net.dpar.router.weight @ net.dpar.query.bias + net.dpar.router.bias
    heads, heads_bias = net.rgc.folded_heads()
    return _Folded(
        embedding=net.mvre.embedding.weight.t().contiguous(),
        embedding_bias=net.mvre.embedding.bias.clone(),
        router=_fill(router.t(), COLUMNS),
        router_bias=_fill(router_bias, COLUMNS),
        expert_in=[weight.clone() for weight in net.rgc.expert_in],
        expert_in_bias=[bias.clone() for bias in net.rgc.expert_in_bias],
        heads=list(_fill(heads, COLUMNS)),
        heads_bias=list(_fill(heads_bias, COLUMNS)),
        expert_out=net.rgc.expert_out.reshape(M * D, D).clone(),
        expert_out_bias=net.rgc.expert_out_bias.clone(),
        class_head=_fill(net.rgc.class_head.t(), COLUMNS),
    )


def _fold_views(net: PaperNet) -> _Views:
    mvre, config = net.mvre, net.config
    gate_temporal, gate_spectral, gate_context = (
        torch.sigmoid(gate.double()).item() for gate in (mvre.gate_temporal, mvre.gate_spectral, mvre.gate_context)
    )
    waves, bands = fourier_basis(config.patch_length, config.band_count)
    spectral = (mvre.spectral.weight * gate_spectral).view(config.width, config.channels, -1)  # (D, C, bands)
    return _Views(
        temporal=mvre.temporal.weight.t().contiguous(),
        temporal_bias=mvre.temporal.bias.clone(),
        spectral=_fill(spectral, BANDS).flatten(1).t().contiguous(),
        context=mvre.context.weight[:, 0] / math.sqrt(config.width),
        context_bias=mvre.context.bias.clone(),
        gate_temporal=gate_temporal,
        gate_context=gate_context,
        waves=waves.to(mvre.temporal.weight),
        bands=_fill(bands.to(mvre.temporal.weight), BANDS),
    )


def _fill(weight: Tensor, multiple: int) -> Tensor:
    """With zeros behind the last axis, up to a multiple."""
    return functional.pad(weight, (0, -weight.shape[-1] % multiple)).contiguous()
