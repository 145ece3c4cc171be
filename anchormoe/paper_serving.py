"""The paper's net for inference: folded weights, chosen experts only, the same bits wherever a window stands.

A row of a matrix product gets the same bits whatever the other rows are, as long as rows and columns come without
remainders: so patches come in multiples of eight per window, so do the rows given to an expert, and narrow outputs
(router, heads, classes) are filled up with columns of zeros. At batch 1 the time goes into the number of torch
calls, not into arithmetic: that is why some things here are cached or done in place that read better otherwise.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from anchormoe.mvre import centroid_share, position_code
from anchormoe.paper_config import EPSILON, ModelConfig
from anchormoe.paper_folding import Folded, Views, fold, fold_views
from anchormoe.paper_net import PaperNet
from anchormoe.paper_output import Output
from anchormoe.patches import PatchGrid

ROWS = 8
"""Rows of every matrix product come in multiples of this."""


class _Frame(NamedTuple):
    """What the masks of B windows say about their P' patches (P of them real) and M experts."""

    valid: Tensor
    """(B, P')"""
    m: Tensor
    """(B, P', 1), 0 or 1"""
    share: Tensor
    """m / Σ m (B, 1, P')"""
    penalty: Tensor
    """(B, P', 1): M where invalid, so that such a patch belongs to no expert"""
    slot: Tensor
    """(B·P'·K,): M times the number of a pair's window"""
    row: Tensor
    """(B·P'·K,): the row of a pair's patch among all B·P'"""
    spare: Tensor
    """Eight times row 0, to fill up the last expert's rows"""


class _Routed(NamedTuple):
    """The N chosen pairs, sorted by expert: hidden rows, numbers and slots; all pairs: heads, weights, gates."""

    hidden: Tensor
    pair: Tensor
    slot: Tensor
    heads: Tensor
    expert: Tensor
    weight: Tensor
    reliability: Tensor
    score: Tensor
    admission: Tensor
    gate: Tensor


class ServingNet:
    """`PaperNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    def __init__(self, net: PaperNet) -> None:
        self.config: ModelConfig = net.config
        self._grid = net.config.grid
        with torch.inference_mode():
            self._weights: Folded = fold(net)
            self._views: Views | None = fold_views(net) if net.config.use_mvre else None

    @torch.inference_mode()
    def forward(self, x: Tensor, mask: Tensor) -> Output:
        """x (B, C, T) float32, 0 where masked; mask (B, C, T) boolean. B ≥ 1."""
        frame = self._frame(mask)
        routed = self._routed(self._units(self._grid.cut(x, ROWS), frame), frame)
        P = self._grid.count(x.shape[2])
        contributions = (routed.heads * routed.gate.unsqueeze(-1)).sum(dim=2)  # A = π ℓ, other columns beside
        return Output(
            logits=self._pooled(routed),
            contributions=contributions[:, :P, : self.config.classes],
            expert=routed.expert[:, :P],
            expert_logits=routed.heads[:, :P, :, : self.config.classes],
            weight=routed.weight[:, :P],
            reliability=routed.reliability[:, :P],
            score=routed.score[:, :P],
            admission=routed.admission[:, :P],
            valid=frame.valid[:, :P],
        )

    @torch.inference_mode()
    def logits(self, x: Tensor, mask: Tensor) -> Tensor:
        """u (B, Y) alone, bitwise that of `forward`."""
        frame = self._frame(mask)
        return self._pooled(self._routed(self._units(self._grid.cut(x, ROWS), frame), frame))

    def _frame(self, mask: Tensor) -> _Frame:
        B, _, T = mask.shape
        if bool(mask.all()):  # the usual case
            return _full_frame(self._grid, (B, T), self.config.top_k, self.config.experts, mask.device)
        return _frame_of(self._grid.valid(mask, ROWS), self.config.top_k, self.config.experts)

    def _units(self, patches: Tensor, frame: _Frame) -> Tensor:
        """e (B, P', D)."""
        B, P, width = patches.shape
        D, weights = self.config.width, self._weights
        rows = patches.view(B * P, width)
        token = torch.addmm(weights.embedding_bias, rows, weights.embedding)
        token = torch.layer_norm(token, (D,), *weights.embedding_norm).view(B, P, D)
        token.add_(position_code(P, D).to(token.device))
        if self._views is None:
            return token
        fused = self._fused(self._views, token, rows, frame)
        return torch.layer_norm(fused, (D,), *self._views.norm).view(B, P, D)

    def _fused(self, views: Views, token: Tensor, rows: Tensor, frame: _Frame) -> Tensor:
        """The sum under the LayerNorm of Eq. fusion (B·P', D)."""
        flat = token.view(rows.shape[0], -1)
        fused = torch.addmm(views.temporal_bias, flat, views.temporal).relu_().add_(flat)
        spectrum = rows.view(-1, self.config.patch_length) @ views.waves
        energy = spectrum.square_() @ views.bands
        fused.addmm_(energy.log1p_().view(rows.shape[0], -1), views.spectral)
        centroid = torch.bmm(frame.share, token)  # (B, 1, D)
        # Not a matrix product: a single window would take another path than a batch.
        r = (token * centroid).sum(dim=-1).view(-1, 1)  # (B·P', 1)
        return fused.addcmul_(r, views.context)

    def _routed(self, unit: Tensor, frame: _Frame) -> _Routed:
        B, P, D = unit.shape
        K, M, Y, weights = self.config.top_k, self.config.experts, self.config.classes, self._weights
        rows = unit.view(B * P, D)
        scores = torch.addmm(weights.router_bias, rows, weights.router)[:, :M]
        top, expert = scores.view(B, P, M).topk(K, dim=-1)
        weight = torch.softmax(top, dim=-1).mul_(frame.m)  # Eq. sparse weight: probabilities renormalised over K
        owner = (expert + frame.penalty).view(-1)
        counts: list[int] = torch.bincount(owner, minlength=M)[:M].tolist()
        pair = owner.argsort(stable=True)[: sum(counts)]
        chosen = rows.index_select(0, torch.cat((frame.row.index_select(0, pair), frame.spare)))
        hidden = _by_expert(chosen, weights.expert_in, weights.expert_in_bias, counts).relu_()
        opinions = _by_expert(hidden, weights.heads, weights.heads_bias, counts)[: len(pair)]
        heads = opinions.new_zeros(B * P * K, opinions.shape[1]).index_copy_(0, pair, opinions).view(B, P, K, -1)
        slot = (owner + frame.slot).index_select(0, pair)
        gates = self._gates(weight, heads[..., Y], frame)
        return _Routed(hidden[: len(pair)], pair, slot, heads, expert, weight, *gates)

    def _gates(self, weight: Tensor, trust: Tensor, frame: _Frame) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """κ (Eq. reliability), s and π (Eq. admission), and the gate π w κ (B, P', K)."""
        if not self.config.use_rgc:
            admission = frame.share.transpose(1, 2)  # (B, P', 1)
            return frame.m.expand_as(weight), frame.m[..., 0], admission[..., 0], weight * admission
        reliability = torch.sigmoid(trust).mul_(frame.m)
        trusted = weight * reliability
        score = trusted.sum(dim=-1)
        admission = score / (score.sum(dim=1, keepdim=True) + EPSILON)
        return reliability, score, admission, trusted.mul_(admission.unsqueeze(-1))

    def _pooled(self, routed: _Routed) -> Tensor:
        """u (B, Y): hidden rows pooled per window and expert, then through the folded class head. Uses up `hidden`."""
        B, M, D = routed.gate.shape[0], self.config.experts, self.config.width
        padded = -(-B // ROWS) * ROWS
        share = routed.gate.view(-1).index_select(0, routed.pair)  # (N,)
        rows = routed.hidden.mul_(share.unsqueeze(1))
        pooled = rows.new_zeros(padded * M, D).index_add_(0, routed.slot, rows).view(padded, M * D)
        return (pooled @ self._weights.class_head)[:B, : self.config.classes]


def _by_expert(rows: Tensor, weight: list[Tensor], bias: list[Tensor], counts: list[int]) -> Tensor:
    """rows (N + 8, I) → (N + 8, O). A group rounded up to eight rows runs into the next one, which overwrites it."""
    out = rows.new_empty(rows.shape[0], weight[0].shape[1])
    start = 0
    for expert, count in enumerate(counts):
        if count:
            stop = start - count // -ROWS * ROWS
            torch.addmm(bias[expert], rows[start:stop], weight[expert], out=out[start:stop])
        start += count
    return out


def _frame_of(valid: Tensor, K: int, M: int) -> _Frame:
    B, P = valid.shape
    m = valid.float()
    penalty = torch.where(valid, 0, M).unsqueeze(-1)
    row = torch.arange(B * P, device=valid.device).repeat_interleave(K)
    return _Frame(valid, m.unsqueeze(-1), centroid_share(valid, m), penalty, row // P * M, row, row.new_zeros(ROWS))


@lru_cache(maxsize=64)
def _full_frame(grid: PatchGrid, shape: tuple[int, int], K: int, M: int, device: torch.device) -> _Frame:
    """That of B windows of T steps that are all valid."""
    B, T = shape
    return _frame_of(grid.valid(torch.ones(B, 1, T, dtype=torch.bool, device=device), ROWS), K, M)
