"""Around the paper net's matrix products, by torch, on any device: the path without numba, and its reference."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.cases import Float32, Int64
from anchormoe.paper.architecture import EPSILON, ModelConfig
from anchormoe.paper.frame import ROWS, PatchMask, Served, filled
from anchormoe.paper.fused_weights import FusedNet
from anchormoe.paper.output import Output


class Layout(NamedTuple):
    """The pairs (patch, chosen expert) as R rows in order of their owner, each expert's filled up with spare rows."""

    owner: Int64
    """(R,): the expert; M, and last, for the pair of an invalid patch."""
    pair: Int64
    """(R,): the pair's number; spare rows have numbers beyond the last pair's."""
    place: Int64
    """(N,): the row of each pair."""
    sizes: list[int]
    """Rows per owner, M + 1 of them; the experts' are multiples of eight."""


class OnTorch:
    """Keeps `paper_frame.Steps`."""

    def __init__(self, config: ModelConfig, weights: FusedNet) -> None:
        self._config = config
        self._weights = weights
        # One more owner, without bias, for the pairs of invalid patches.
        self._biases = [functional.pad(bias, (0, 0, 0, 1)) for bias in (weights.expert_in_bias, weights.heads_bias)]

    def cut(self, x: Tensor, mask: Tensor) -> tuple[Tensor, bool]:
        return self._config.grid.cut(x, ROWS).flatten(0, 1), bool(mask.all())

    def logits(self, unit: Tensor, scores: Tensor, frame: PatchMask) -> Float32:
        return self.output(unit, scores, frame).logits

    def output(self, unit: Tensor, scores: Tensor, frame: PatchMask) -> Served:
        (B, P), Y = frame.valid.shape, self._config.classes
        unit, scores = (rows.view(B, -1, rows.shape[1])[:, :P] for rows in (unit, scores))
        top, expert = scores[..., : self._config.experts].topk(self._config.top_k, dim=-1)
        weight = torch.softmax(top, dim=-1) * frame.m  # Eq. sparse weight: probabilities renormalised over K
        hidden, heads = self._said(
            unit.reshape(B * P, -1), torch.where(frame.valid.unsqueeze(-1), expert, self._config.experts)
        )
        reliability, score, admission = self._gates(weight, heads[..., Y], frame)
        gate = admission.unsqueeze(-1) * weight * reliability  # (B, P, K)
        logits = heads[..., :Y]
        contributions = (gate.unsqueeze(-1) * logits).sum(dim=2)  # A = π ℓ
        terms = (contributions, expert, logits, weight, reliability, score, admission, frame.valid)
        pooled = class_logits(self._pool(hidden, gate, expert), self._weights, frame, Y)
        return Output(pooled, *(term.cpu().numpy() for term in terms))

    def _said(self, unit: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden rows (B, P, K, D) and heads (B, P, K, Y') of every pair; 0 where the patch is invalid."""
        layout = laid_out(owner.flatten().cpu().numpy(), self._config.experts)
        owners, pair, place = (torch.from_numpy(part).to(unit.device) for part in layout[:3])
        rows = unit.index_select(0, (pair // self._config.top_k).clamp_max(len(unit) - 1))
        hidden, heads = (bias.index_select(0, owners) for bias in self._biases)
        add_products(hidden, rows, self._weights.expert_in, layout.sizes)
        add_products(heads, hidden.relu_(), self._weights.heads, layout.sizes)
        hidden, heads = (part.index_select(0, place).view(*owner.shape, -1) for part in (hidden, heads))
        return hidden, heads

    def _gates(self, weight: Tensor, trust: Tensor, frame: PatchMask) -> tuple[Tensor, Tensor, Tensor]:
        """κ (Eq. reliability), s and π (Eq. admission)."""
        m = frame.m
        if not self._config.use_rgc:
            return m.expand_as(weight), m[..., 0], frame.share[:, 0, : m.shape[1]]
        reliability = torch.sigmoid(trust) * m
        score = (weight * reliability).sum(dim=-1)
        return reliability, score, score / (score.sum(dim=1, keepdim=True) + EPSILON)

    def _pool(self, hidden: Tensor, gate: Tensor, expert: Tensor) -> Tensor:
        """Σ π w κ hidden per window and expert (B', M, D); B' is B filled up to a multiple of eight."""
        B, M, D = len(gate), self._config.experts, self._config.width
        slot = torch.arange(B, device=gate.device).view(B, 1, 1) * M + expert  # (B, P, K)
        rows = (hidden * gate.unsqueeze(-1)).view(-1, D)
        return rows.new_zeros(filled(B) * M, D).index_add_(0, slot.flatten(), rows).view(-1, M, D)


def class_logits(pooled: Tensor, weights: FusedNet, frame: PatchMask, Y: int) -> Float32:
    """u (B, Y): pooled hidden rows (B', M, D) through the folded class head, independent of the contributions."""
    logits = torch.mm(pooled.flatten(1), weights.class_head)
    return np.asarray(logits.cpu().numpy()[: len(frame.valid), :Y])


def laid_out(owner: Int64, M: int) -> Layout:
    """From the owner of each of the N pairs. In numpy, whose calls cost less than torch's."""
    counts = np.bincount(owner, minlength=M + 1)
    spare = -counts % ROWS
    spare[M] = 0
    owner = np.concatenate((owner, np.arange(M + 1).repeat(spare)))
    pair = owner.argsort(kind="stable")
    place = np.empty_like(pair)
    place[pair] = np.arange(len(pair))
    return Layout(owner[pair], pair, place[: counts.sum()], (counts + spare).tolist())


def add_products(out: Tensor, rows: Tensor, weights: list[Tensor], sizes: list[int]) -> None:
    """Adds to each owner's rows of `out` (R, O) those of `rows` (R, I) times its weight (I, O).

    `sizes` are the owners' rows, and last the rest, which belong to none.
    """
    for sums, own, weight in zip(out.split_with_sizes(sizes), rows.split_with_sizes(sizes), weights, strict=False):
        if len(own):
            sums.addmm_(own, weight)
