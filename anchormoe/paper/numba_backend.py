"""Around the paper net's matrix products, compiled, on the CPU; the products themselves stay torch's.

At batch 1 the calls that route, gather, gate and pool would cost more than the arithmetic of the whole net. Every loop
goes over windows one by one, so a window gets the same bits wherever it stands.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anchormoe.cases import Float32
from anchormoe.paper.architecture import EPSILON, ModelConfig
from anchormoe.paper.frame import ROWS, PatchMask, Served, filled
from anchormoe.paper.fused_weights import FusedNet
from anchormoe.paper.output import Output
from anchormoe.paper.torch_backend import add_products, class_logits
from anchormoe.simd.jit import Array, compiled

Arrays = tuple[Array, ...]


class Compiled:
    """Keeps `paper_frame.Steps`."""

    def __init__(self, config: ModelConfig, weights: FusedNet) -> None:
        self._config = config
        self._weights = weights
        self._biases = (weights.expert_in_bias.numpy(), weights.heads_bias.numpy())

    def cut(self, x: Tensor, mask: Tensor) -> tuple[Tensor, bool]:
        B, C, T = x.shape
        L, stride = self._config.patch_length, self._config.patch_stride
        patches = torch.empty(B * self._config.grid.count(T, ROWS), C * L)
        return patches, cut(x.contiguous().numpy(), mask.contiguous().numpy(), L, stride, patches.numpy())

    def logits(self, unit: Tensor, scores: Tensor, frame: PatchMask) -> Float32:
        nothing = self._evidence(frame, 0)
        return self._run(unit, scores, frame, nothing)[0]

    def output(self, unit: Tensor, scores: Tensor, frame: PatchMask) -> Served:
        contributions, opinions = evidence = self._evidence(frame, self._config.classes)
        logits, (expert, weight, _), (reliability, score, admission) = self._run(unit, scores, frame, evidence)
        valid = frame.valid.numpy()
        return Output(logits, contributions, expert, opinions, weight, reliability, score, admission, valid)

    def _evidence(self, frame: PatchMask, Y: int) -> Arrays:
        """Zeros for A (B, P, Y) and o (B, P, K, Y); without classes for those who want the logits alone."""
        B, P = frame.valid.shape
        return np.zeros((B, P, Y), np.float32), np.zeros((B, P, self._config.top_k, Y), np.float32)

    def _run(self, unit: Tensor, scores: Tensor, frame: PatchMask, evidence: Arrays) -> tuple[Float32, Arrays, Arrays]:
        """u (B, Y); expert, w and place (B, P, K); κ (B, P, K), s and π (B, P). Fills in the evidence."""
        (B, P), M, K, D = frame.valid.shape, self._config.experts, self._config.top_k, unit.shape[1]
        pairs = (np.empty((B, P, K), np.int64), np.empty((B, P, K), np.float32), np.empty((B, P, K), np.int64))
        gates = (np.zeros((B, P, K), np.float32), np.zeros((B, P), np.float32), np.zeros((B, P), np.float32))
        # By torch, which aligns memory: matrix products may give other bits on other alignments.
        rows, hidden = (torch.empty(B * P * K + ROWS * M, D) for _ in range(2))
        heads = torch.empty(len(rows), scores.shape[1])
        pooled = torch.zeros(filled(B), M, D)
        said = (hidden.numpy(), heads.numpy())
        sizes = lay_out(unit.numpy(), scores.numpy(), frame.valid.numpy(), pairs, self._biases, rows.numpy(), said)
        sizes = sizes.tolist()
        add_products(hidden, rows, self._weights.expert_in, sizes)
        add_products(heads, hidden.relu_(), self._weights.heads, sizes)
        weigh(pairs, gates, said, self._config.classes if self._config.use_rgc else -1, evidence, pooled.numpy())
        return class_logits(pooled, self._weights, frame, self._config.classes), pairs, gates


@compiled
def cut(x: Array, mask: Array, length: int, stride: int, patches: Array) -> bool:
    """x (B, C, T) into patches (B·P', C·L), zeros beyond the end; whether all of the mask (B, C, T) is set."""
    B, C, T = x.shape
    P = len(patches) // B
    for b in range(B):
        for p in range(P):
            for c in range(C):
                for step in range(length):
                    t = p * stride + step
                    patches[b * P + p, c * length + step] = x[b, c, t] if t < T else 0
    return all_set(mask.reshape(-1))


@compiled
def all_set(mask: Array) -> bool:
    for each in mask:  # noqa: SIM110  # numba takes seconds to compile all(…)
        if not each:
            return False
    return True


@compiled
def lay_out(
    unit: Array, scores: Array, valid: Array, pairs: Arrays, biases: Arrays, rows: Array, said: Arrays
) -> Array:
    """Fills in the pairs, and lays the units out by expert; how many rows each expert got, and the rest (M + 1,).

    Hidden and heads are given the biases, to which products will be added.
    """
    counts = route(scores, valid, pairs, len(biases[0]))
    starts, sizes = np.zeros(len(counts) + 1, np.int64), np.zeros(len(counts) + 1, np.int64)
    for r in range(len(counts)):
        start, stop = starts[r], starts[r] + (counts[r] + ROWS - 1) // ROWS * ROWS
        for row in range(start, stop):
            copy(biases[0][r], said[0][row])
            copy(biases[1][r], said[1][row])
        for row in range(start + counts[r], stop):
            copy(unit[0], rows[row])  # spare rows read any unit
        sizes[r], starts[r + 1] = stop - start, stop
    sizes[-1] = len(rows) - starts[-1]
    fetch(unit, pairs, starts, rows)
    return sizes


@compiled
def route(scores: Array, valid: Array, pairs: Arrays, M: int) -> Array:
    """Chooses experts; a pair's place is its number among those of its expert, −1 if invalid. Their counts (M,)."""
    expert, weight, place = pairs
    B, P, K = expert.shape
    padded = len(scores) // B
    counts = np.zeros(M, np.int64)
    for b in range(B):
        for p in range(P):
            choose(scores[b * padded + p, :M], expert[b, p], weight[b, p])
            for k in range(K):
                place[b, p, k] = counts[expert[b, p, k]] if valid[b, p] else -1
                weight[b, p, k] *= valid[b, p]
                counts[expert[b, p, k]] += valid[b, p]
    return counts


@compiled
def choose(scores: Array, expert: Array, weight: Array) -> None:
    """The K largest of scores (M,), the first of equal ones, and their softmax (Eq. sparse weight)."""
    for k in range(len(expert)):
        best = -1
        for r in range(len(scores)):
            if (best < 0 or scores[r] > scores[best]) and not is_among(expert[:k], r):
                best = r
        expert[k] = best
    total = np.float32(0)
    for k in range(len(expert)):
        weight[k] = math.exp(scores[expert[k]] - scores[expert[0]])
        total += weight[k]
    for k in range(len(expert)):
        weight[k] /= total


@compiled
def is_among(chosen: Array, expert: int) -> bool:
    for each in chosen:  # noqa: SIM110  # as above
        if each == expert:
            return True
    return False


@compiled
def fetch(unit: Array, pairs: Arrays, starts: Array, rows: Array) -> None:
    """Turns numbers within an expert into places among all rows, and brings the units there."""
    expert, _, place = pairs
    B, P, K = expert.shape
    padded = len(unit) // B
    for b in range(B):
        for p in range(P):
            for k in range(K):
                if place[b, p, k] >= 0:
                    place[b, p, k] += starts[expert[b, p, k]]
                    copy(unit[b * padded + p], rows[place[b, p, k]])


@compiled
def weigh(pairs: Arrays, gates: Arrays, said: Arrays, trust: int, evidence: Arrays, pooled: Array) -> None:
    """Fills in gates and evidence of the valid patches, and adds hidden rows times π w κ to pooled (B', M, D).

    `trust` is the column of κ's logit among the heads; −1 is w/o RGC.
    """
    (expert, weight, place), (reliability, score, admission), (contributions, opinions) = pairs, gates, evidence
    B, P, K = expert.shape
    for b in range(B):
        admit(place[b], weight[b], said[1], trust, (reliability[b], score[b], admission[b]))
        for p in range(P):
            for k in range(K):
                if place[b, p, k] < 0:
                    continue
                gate = admission[b, p] * weight[b, p, k] * reliability[b, p, k]
                add_scaled(said[0][place[b, p, k]], gate, pooled[b, expert[b, p, k]])
                copy(said[1][place[b, p, k]], opinions[b, p, k])
                add_scaled(opinions[b, p, k], gate, contributions[b, p])


@compiled
def admit(place: Array, weight: Array, heads: Array, trust: int, gates: Arrays) -> None:
    """κ (Eq. reliability), s and π (Eq. admission) of one window; w/o RGC every valid patch is trusted alike."""
    reliability, score, admission = gates
    P, K = place.shape
    total = np.float32(0)
    for p in range(P):
        if place[p, 0] < 0:
            continue
        for k in range(K):
            reliability[p, k] = sigmoid(heads[place[p, k], trust]) if trust >= 0 else 1
            score[p] += weight[p, k] * reliability[p, k]
        if trust < 0:
            score[p] = 1
        total += score[p]
    total = total + np.float32(EPSILON) if trust >= 0 else max(total, np.float32(1))
    for p in range(P):
        admission[p] = score[p] / total


@compiled
def sigmoid(logit: float) -> Any:
    return np.float32(1) / (np.float32(1) + math.exp(-logit))


@compiled
def copy(row: Array, out: Array) -> None:
    """As much of the row as there is room for."""
    for index in range(len(out)):
        out[index] = row[index]


@compiled
def add_scaled(row: Array, factor: float, out: Array) -> None:
    for index in range(len(out)):
        out[index] += factor * row[index]
