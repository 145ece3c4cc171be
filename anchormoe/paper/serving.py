"""The paper's net for inference: fused weights, only the chosen experts, results independent of the batch.

A row of a matrix product has the same bits whatever the other rows are, as long as the numbers of rows and columns have
no remainder. So each window has a multiple of eight patches, each expert a multiple of eight rows, and narrow outputs
(router, heads, classes) are padded with columns of zeros. For a single window the number of calls costs more than the
arithmetic; that is why some values here are cached or changed in place.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float32, Int64
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.fused_weights import FusedNet, FusedViews, fuse_net, fuse_views
from anchormoe.paper.mvre import centroid_share, position_code
from anchormoe.paper.net import PaperNet
from anchormoe.paper.output import Output
from anchormoe.paper.rgc import admit

ROWS = 8
"""Rows of every matrix product come in multiples of this."""


class PatchMask(NamedTuple):
    """Which of the P patches of B windows are valid, and what follows from it; P' is P rounded up to eight."""

    valid: Tensor
    """(B, P)"""
    m: Tensor
    """(B, P, 1), 0 or 1"""
    share: Tensor
    """m / Σ m (B, 1, P'), 0 beyond P"""
    position: Tensor
    """Position codes (P', D)"""


class ServingNet:
    """`PaperNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    def __init__(self, net: PaperNet) -> None:
        self.config: ModelConfig = net.config
        self._grid = net.config.grid
        with torch.inference_mode():
            self._weights: FusedNet = fuse_net(net)
            self._views: FusedViews | None = fuse_views(net) if net.config.use_mvre else None
            # The pairs of invalid patches belong to one more expert, without bias.
            biases = (self._weights.expert_in_bias, self._weights.heads_bias)
            self._biases = [functional.pad(bias, (0, 0, 0, 1)) for bias in biases]

    @torch.inference_mode()
    def forward(self, x: Tensor, mask: Tensor) -> Output[NDArray[Any]]:
        """x (B, C, T) float32, 0 where masked; mask (B, C, T) boolean. B ≥ 1."""
        unit, patches = self._units(x, mask)
        (B, P), Y = patches.valid.shape, self.config.classes
        scores = torch.addmm(self._weights.router_bias, unit, self._weights.router)
        unit, scores = (rows.view(B, -1, rows.shape[1])[:, :P] for rows in (unit, scores))
        top, expert = scores[..., : self.config.experts].topk(self.config.top_k, dim=-1)
        weight = torch.softmax(top, dim=-1) * patches.m  # Eq. sparse weight: probabilities renormalised over K
        owner = torch.where(patches.valid.unsqueeze(-1), expert, self.config.experts)
        hidden, heads = self._run_experts(unit.reshape(B * P, -1), owner)
        reliability, trusted, score, admission = admit(
            weight, torch.sigmoid(heads[..., Y]), patches.m, use_rgc=self.config.use_rgc
        )
        gate = admission.unsqueeze(-1) * trusted  # π w κ (B, P, K)
        expert_logits = heads[..., :Y]
        contributions = (gate.unsqueeze(-1) * expert_logits).sum(dim=2)  # A = π ℓ
        parts = (contributions, expert, expert_logits, weight, reliability, score, admission, patches.valid)
        return Output(self._class_logits(hidden, gate, expert), *(part.cpu().numpy() for part in parts))

    def _units(self, x: Tensor, mask: Tensor) -> tuple[Tensor, PatchMask]:
        """e (B·P', D), and which patches are valid."""
        D, weights = self.config.width, self._weights
        rows = self._grid.cut(x, ROWS).flatten(0, 1)  # (B·P', C·L)
        if bool(mask.all()):  # the usual case
            patches = full_patch_mask(len(x), self._grid.count(x.shape[2]), D, x.device)
        else:
            patches = patch_mask(self._grid.valid(mask), D)
        token = torch.addmm(weights.embedding_bias, rows, weights.embedding)
        token = torch.layer_norm(token, (D,), *weights.embedding_norm).view(len(x), -1, D).add_(patches.position)
        if self._views is None:
            return token.flatten(0, 1), patches
        return torch.layer_norm(self._sum_views(self._views, token, rows, patches), (D,), *self._views.norm), patches

    def _sum_views(self, views: FusedViews, token: Tensor, rows: Tensor, patches: PatchMask) -> Tensor:
        """The sum under the LayerNorm of Eq. fusion (B·P', D)."""
        flat = token.view(len(rows), -1)
        total = torch.addmm(views.temporal_bias, flat, views.temporal).relu_().add_(flat)
        spectrum = torch.mm(rows.view(-1, self.config.patch_length), views.waves)
        energy = torch.mm(spectrum.mul_(spectrum), views.bands)
        total.addmm_(energy.log1p_().view(len(rows), -1), views.spectral)
        centroid = torch.bmm(patches.share, token)  # (B, 1, D)
        # Not a matrix product, which would be computed differently for one window and for several.
        r = (token * centroid).sum(dim=-1).view(-1, 1)  # (B·P', 1)
        return total.addcmul_(r, views.context)

    def _run_experts(self, unit: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden rows (B, P, K, D) and heads (B, P, K, Y') of every pair; 0 where the patch is invalid.

        unit (B·P, D), owner (B, P, K).
        """
        rows = group_by_expert(owner.flatten().cpu().numpy(), self.config.experts)
        owners, pair, place = (torch.from_numpy(part).to(unit.device) for part in (rows.owner, rows.pair, rows.place))
        units = unit.index_select(0, (pair // self.config.top_k).clamp_max(len(unit) - 1))
        hidden, heads = (bias.index_select(0, owners) for bias in self._biases)
        add_expert_products(hidden, units, self._weights.expert_in, rows.sizes)
        add_expert_products(heads, hidden.relu_(), self._weights.heads, rows.sizes)
        hidden, heads = (part.index_select(0, place).view(*owner.shape, -1) for part in (hidden, heads))
        return hidden, heads

    def _class_logits(self, hidden: Tensor, gate: Tensor, expert: Tensor) -> Float32:
        """u (B, Y): Σ π w κ hidden per window and expert through the fused class head; not from the contributions."""
        B, M, D = len(gate), self.config.experts, self.config.width
        slot = torch.arange(B, device=gate.device).view(B, 1, 1) * M + expert  # (B, P, K)
        gated = (hidden * gate.unsqueeze(-1)).view(-1, D)
        pooled = gated.new_zeros(round_up(B) * M, D).index_add_(0, slot.flatten(), gated)  # (B'·M, D)
        logits = torch.mm(pooled.view(-1, M * D), self._weights.class_head)
        return np.asarray(logits.cpu().numpy()[:B, : self.config.classes])


class ExpertRows(NamedTuple):
    """The N pairs (patch, chosen expert) as R rows sorted by expert, each expert's padded to a multiple of eight."""

    owner: Int64
    """(R,) the expert; the pairs of invalid patches come last and have the owner M."""
    pair: Int64
    """(R,) the number of the pair; padding rows have numbers from N on."""
    place: Int64
    """(N,) the row of each pair"""
    sizes: list[int]
    """Rows per owner, M + 1 of them"""


def group_by_expert(owner: Int64, M: int) -> ExpertRows:
    """From the owner of each of the N pairs. In numpy, whose calls cost less than torch's."""
    counts = np.bincount(owner, minlength=M + 1)
    padding = -counts % ROWS
    padding[M] = 0
    owner = np.concatenate((owner, np.arange(M + 1).repeat(padding)))
    pair = owner.argsort(kind="stable")
    place = np.empty_like(pair)
    place[pair] = np.arange(len(pair))
    return ExpertRows(owner[pair], pair, place[: counts.sum()], (counts + padding).tolist())


def add_expert_products(out: Tensor, rows: Tensor, weights: list[Tensor], sizes: list[int]) -> None:
    """Adds to each expert's rows of `out` (R, O) those of `rows` (R, I) times its weight (I, O).

    `sizes` has one entry more than `weights`: the rows of invalid patches, to which nothing is added.
    """
    for sums, inputs, weight in zip(out.split_with_sizes(sizes), rows.split_with_sizes(sizes), weights, strict=False):
        if len(inputs):
            sums.addmm_(inputs, weight)


@lru_cache(maxsize=64)
def full_patch_mask(B: int, P: int, D: int, device: torch.device) -> PatchMask:
    """For windows without missing steps."""
    return patch_mask(torch.ones(B, P, dtype=torch.bool, device=device), D)


def patch_mask(valid: Tensor, D: int) -> PatchMask:
    P, m = valid.shape[1], valid.float()
    share = functional.pad(centroid_share(valid, m), (0, round_up(P) - P))
    return PatchMask(valid, m.unsqueeze(-1), share, position_code(round_up(P), D).to(m))


def round_up(count: int) -> int:
    """To a multiple of ROWS."""
    return -(-count // ROWS) * ROWS
