"""A committee's network compiled for one window at a time, without the many small calls of torch.

Arrays inside are flat, rows of P tokens: (inputs, P), (width, P), (experts × width, P). P is a multiple of LANES, and
results beyond the last token are not used.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.cases import Float64
from anchormoe.experts.fused_weights import fuse_weights, pad_columns, stem_start
from anchormoe.experts.net import GAIN, CommitteeNet, CommitteeOutput
from anchormoe.experts.tokens import Series, centre_for_members
from anchormoe.simd.jit import Array, compiled, inlined
from anchormoe.simd.products import OUTPUTS, exp, gelu, pool_tokens, product, product_from_tokens, sigmoid, silu
from anchormoe.simd.vectors import LANES

_EPSILON = np.float32(1e-5)


class NumbaCommittee:
    """`CommitteeNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    @torch.inference_mode()
    def __init__(self, net: CommitteeNet) -> None:
        self.shape, fused = net.shape, fuse_weights(net)
        heads = fused.head[:, None].expand(-1, net.shape.experts, -1, -1)
        heads = torch.cat((heads, net.reliability[..., None]), -1)  # (G, M, D, Y + 1)
        biases = torch.nn.functional.pad(net.reliability_bias[..., None], (net.shape.classes, 0))
        weights = (net.stem, fused.mix, net.mix_bias, fused.inner, fused.inner_bias, heads, biases)
        self._weights = tuple(_flat(pad_columns(weight, OUTPUTS)) for weight in weights)
        self._readout = tuple(each.double().numpy().copy() for each in (fused.head, fused.summary, fused.bias))
        self._stem_start = lru_cache(maxsize=8)(lambda tokens: _flat_stem_start(net, tokens))

    def forward(self, series: Series) -> CommitteeOutput:
        shape = self.shape
        x = centre_for_members(series.x[None], series.mask[None], series.level[None], shape.centred)
        (B, P), G, M, Y = series.valid.shape, shape.members, shape.experts, shape.classes
        sizes = (shape.geometry.kernel, shape.geometry.stride, shape.width, M, shape.chosen)
        inputs = (x.contiguous().numpy(), series.valid.contiguous().numpy(), series.summary.numpy())
        outputs = tuple(np.zeros((G, B, *rest)) for rest in ((Y,), (Y,), (P, Y), (P, M, Y), (P, M), (P, M)))
        run_committee(inputs, sizes, (*self._weights, self._stem_start(P)), self._readout, outputs)
        return CommitteeOutput(*outputs)

    def logits(self, series: Series) -> Float64:
        """(G, B, Y); the explanation costs so little that this is not faster."""
        return self.forward(series).logits


@torch.inference_mode()
def _flat_stem_start(net: CommitteeNet, tokens: int) -> NDArray[np.float32]:
    """(G, D'·P'): what the stem's product is added to."""
    rounded = -(-tokens // LANES) * LANES
    return _flat(pad_columns(stem_start(net, rounded), OUTPUTS).transpose(1, 2))


def _flat(weight: torch.Tensor) -> NDArray[np.float32]:
    """(G, …) to one row per member."""
    return np.ascontiguousarray(weight.flatten(1).numpy(), np.float32)


@inlined
def read_tokens(x: Array, kernel: int, stride: int, P: int, out: Array) -> None:
    """out[(c, tap), p] = what token p reads of x (C, S); 0 outside the series."""
    half = kernel // 2
    for c in range(x.shape[0]):
        for tap in range(kernel):
            row = (c * kernel + tap) * P
            for p in range(P):
                step = p * stride + tap - half
                out[row + p] = x[c, step] if 0 <= step < x.shape[1] else np.float32(0)


@inlined
def normalize(rows: Array, D: int, P: int, mean: Array, spread: Array) -> None:
    """LayerNorm of each token's D numbers, without scale and bias."""
    mean[:] = 0
    spread[:] = 0
    for d in range(D):
        for p in range(P):
            mean[p] += rows[d * P + p]
    for p in range(P):
        mean[p] /= np.float32(D)
    for d in range(D):
        for p in range(P):
            spread[p] += (rows[d * P + p] - mean[p]) ** 2
    for p in range(P):
        spread[p] = np.float32(1) / np.sqrt(spread[p] / np.float32(D) + _EPSILON)
    for d in range(D):
        for p in range(P):
            rows[d * P + p] = (rows[d * P + p] - mean[p]) * spread[p]


@inlined
def route(scores: Array, first: int, M: int, P: int, chosen: int, weight: Array) -> None:
    """weight[m, p] = softmax over the `chosen` largest of a token's M scores (of equal ones the first), 0 elsewhere."""
    for p in range(P):
        best = scores[first + p]
        for m in range(1, M):
            best = max(best, scores[first + m * P + p])
        for m in range(M):
            weight[m * P + p] = scores[first + m * P + p] - best
    exp(weight, 0, M * P)
    for p in range(P):
        total = np.float32(0)
        for m in range(M):
            score, better = scores[first + m * P + p], 0
            for n in range(M):
                other = scores[first + n * P + p]
                better += other > score or (other == score and n < m)
            if better >= chosen:
                weight[m * P + p] = 0
            total += weight[m * P + p]
        for m in range(M):
            weight[m * P + p] /= total


@inlined
def compute_gates(weight: Array, heads: Array, valid: Array, sizes: Array, gate: Array) -> None:
    """gate[m, p] = gain × validity × weight × κ; weights and κ of invalid tokens become 0."""
    M, H, Y, P = sizes
    count = max(1, np.sum(valid))
    for m in range(M):
        for p in range(P):
            used = np.float32(valid[p]) if p < len(valid) else np.float32(0)
            weight[m * P + p] *= used
            heads[(m * H + Y) * P + p] *= used
            gate[m * P + p] = weight[m * P + p] * heads[(m * H + Y) * P + p] * np.float32(GAIN / count)


@compiled
def run_member(read: Array, valid: Array, g: int, sizes: Array, weights: Array, scratch: Array, pooled: Array) -> None:
    """Fills weight (M, P), heads (M, H, P), gate (M, P) of `scratch`, and pooled (D,)."""
    stem, mix, mix_bias, inner, inner_bias, head, head_bias, start = weights
    D, M, chosen, H, Y, P = sizes
    token, mixed, hidden, heads, weight, gate, mean, spread = scratch
    width, all_experts = len(mix_bias[g]), len(inner_bias[g])
    product_from_tokens((stem[g], read, start[g], token), (0, 0, 0, 0, len(read) // P, width, P))
    gelu(token, 0, width * P)
    product((mix[g], token, mix_bias[g], mixed), (0, 0, 0, 0, D, width, P))
    normalize(mixed, D, P, mean, spread)
    product((inner[g], mixed, inner_bias[g], hidden), (0, 0, 0, 0, D, all_experts, P))
    route(hidden, M * D * P, M, P, chosen, weight)
    silu(hidden, 0, M * D * P)
    for m in range(M):
        product((head[g], hidden, head_bias[g], heads), (m * D * H, m * D * P, m * H, m * H * P, D, H, P))
        sigmoid(heads, (m * H + Y) * P, P)
    compute_gates(weight, heads, valid, (M, H, Y, P), gate)
    pool_tokens((hidden, gate, pooled), (M, D, P))


@inlined
def write_evidence(scratch: Array, sizes: Array, g: int, b: int, outputs: Array) -> None:
    """What each token and expert adds, its weight and its reliability."""
    M, H, Y, P = sizes
    _, _, total, values, weights, reliabilities = outputs
    _, _, _, heads, weight, gate, _, _ = scratch
    for p in range(total.shape[2]):
        for m in range(M):
            weights[g, b, p, m] = weight[m * P + p]
            reliabilities[g, b, p, m] = heads[(m * H + Y) * P + p]
            for y in range(Y):
                amount = np.float64(heads[(m * H + y) * P + p] * gate[m * P + p])
                values[g, b, p, m, y] = amount
                total[g, b, p, y] += amount


@inlined
def write_logits(pooled: Array, summary: Array, readout: Array, g: int, b: int, outputs: Array) -> None:
    """Context from the summary of the series, plus the class head applied to the pooled hidden evidence."""
    head, weights, bias = readout
    logits, context = outputs[0], outputs[1]
    for y in range(bias.shape[1]):
        of_summary = bias[g, y]
        for index in range(len(summary)):
            of_summary += summary[index] * weights[g, index, y]
        of_tokens = 0.0
        for d in range(head.shape[1]):
            of_tokens += pooled[d] * head[g, d, y]
        context[g, b, y], logits[g, b, y] = of_summary, of_summary + of_tokens


@compiled
def run_committee(inputs: Array, sizes: Array, weights: Array, readout: Array, outputs: Array) -> None:
    """inputs = x (G or 1, B, C, S), valid (B, P), summary (B, 2·C); outputs are the arrays of `CommitteeOutput`."""
    x, valid, summary = inputs
    kernel, stride, D, M, chosen = sizes
    Y = outputs[0].shape[2]
    P, H = -(-valid.shape[1] // LANES) * LANES, -(-(Y + 1) // OUTPUTS) * OUTPUTS
    width, inner = len(weights[2][0]), len(weights[4][0])
    read = np.zeros(x.shape[2] * kernel * P, np.float32)
    scratch = (
        np.zeros(width * P, np.float32), np.zeros(width * P, np.float32), np.zeros(inner * P, np.float32),
        np.zeros(M * H * P, np.float32), np.zeros(M * P, np.float32), np.zeros(M * P, np.float32),
        np.zeros(P, np.float32), np.zeros(P, np.float32),
    )  # fmt: skip
    pooled = np.zeros(D)
    for b in range(len(valid)):
        for g in range(len(outputs[0])):
            if g < len(x):
                read_tokens(x[g, b], kernel, stride, P, read)
            run_member(read, valid[b], g, (D, M, chosen, H, Y, P), weights, scratch, pooled)
            write_evidence(scratch, (M, H, Y, P), g, b, outputs)
            write_logits(pooled, summary[b], readout, g, b, outputs)
