"""A committee's network compiled for one window at a time: the same answers as `serving`, without its many small calls.

Arrays inside are flat, rows of P tokens: (inputs, P), (width, P), (experts × width, P). P is a multiple of LANES; what
is beyond the last token is computed and never used.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.cases import Float64
from anchormoe.experts.fused_weights import fuse_weights, padded_to, prepare_weights
from anchormoe.experts.net import GAIN, CommitteeNet
from anchormoe.experts.tokens import Series, for_members
from anchormoe.simd.jit import Array, compiled, inlined
from anchormoe.simd.products import OUTPUTS, exp, gelu, pool_tokens, product, product_from_tokens, sigmoid, silu
from anchormoe.simd.vectors import LANES

_EPSILON = np.float32(1e-5)


class NumbaCommittee:
    """`CommitteeNet` frozen at its current weights. Thread-safe: calls share nothing but constants."""

    @torch.inference_mode()
    def __init__(self, net: CommitteeNet) -> None:
        self.shape, own = net.shape, fuse_weights(net)
        heads = own.head[:, None].expand(-1, net.shape.experts, -1, -1)
        heads = torch.cat((heads, net.reliability[..., None]), -1)  # (G, M, D, Y + 1)
        biases = torch.nn.functional.pad(net.reliability_bias[..., None], (net.shape.classes, 0))
        products = (net.stem, own.mix, net.mix_bias, own.inner, own.inner_bias, heads, biases)
        self._weights = tuple(_flat(padded_to(one, OUTPUTS)) for one in products)
        self._ends = tuple(one.double().numpy().copy() for one in (own.head, own.summary, own.bias))
        self._place = lru_cache(maxsize=8)(lambda tokens: _placed(net, tokens))

    def parts(self, series: Series) -> tuple[Float64, ...]:
        """logits, context, values, expert values, weights, reliabilities, each (G, B, …)."""
        shape = self.shape
        x = for_members(series.x[None], series.mask[None], series.level[None], shape.centred)
        (B, P), G, M, Y = series.valid.shape, shape.members, shape.experts, shape.classes
        sizes = (shape.geometry.kernel, shape.geometry.stride, shape.width, M, shape.chosen)
        given = (x.contiguous().numpy(), series.valid.contiguous().numpy(), series.summary.numpy())
        found = tuple(np.zeros((G, B, *rest)) for rest in ((Y,), (Y,), (P, Y), (P, M, Y), (P, M), (P, M)))
        answer_all(given, sizes, (*self._weights, self._place(P)), self._ends, found)
        return found

    def logits(self, series: Series) -> Float64:
        """(G, B, Y); explaining them costs next to nothing, so this is no faster."""
        return self.parts(series)[0]


@torch.inference_mode()
def _placed(net: CommitteeNet, tokens: int) -> NDArray[np.float32]:
    """(G, D'·P'): where the stem begins."""
    rounded = -(-tokens // LANES) * LANES
    return _flat(padded_to(prepare_weights(net, rounded), OUTPUTS).transpose(1, 2))


def _flat(weight: torch.Tensor) -> NDArray[np.float32]:
    """(G, …) to one row per member."""
    return np.ascontiguousarray(weight.flatten(1).numpy(), np.float32)


@inlined
def read_tokens(x: Array, kernel: int, stride: int, P: int, out: Array) -> None:
    """out[(c, tap), p] = what token p reads of x (C, S); 0 beyond the series."""
    half = kernel // 2
    for c in range(x.shape[0]):
        for tap in range(kernel):
            row = (c * kernel + tap) * P
            for p in range(P):
                step = p * stride + tap - half
                out[row + p] = x[c, step] if 0 <= step < x.shape[1] else np.float32(0)


@inlined
def normalize(rows: Array, D: int, P: int, mean: Array, spread: Array) -> None:
    """Of every token, its D numbers with mean 0 and deviation 1."""
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
    """weight[m, p] = softmax over the `chosen` best of a token's M scores, 0 for the others; ties go to the first."""
    for p in range(P):
        best = scores[first + p]
        for m in range(1, M):
            best = max(best, scores[first + m * P + p])
        for m in range(M):
            weight[m * P + p] = scores[first + m * P + p] - best
    exp(weight, 0, M * P)
    for p in range(P):
        kept = np.float32(0)
        for m in range(M):
            own, better = scores[first + m * P + p], 0
            for other in range(M):
                rival = scores[first + other * P + p]
                better += rival > own or (rival == own and other < m)
            if better >= chosen:
                weight[m * P + p] = 0
            kept += weight[m * P + p]
        for m in range(M):
            weight[m * P + p] /= kept


@inlined
def gates(weight: Array, heads: Array, valid: Array, sizes: Array, gate: Array) -> None:
    """gate[m, p] = gain × validity × weight × reliability; weights and reliabilities of invalid tokens become 0."""
    M, H, Y, P = sizes
    count = max(1, np.sum(valid))
    for m in range(M):
        for p in range(P):
            there = np.float32(valid[p]) if p < len(valid) else np.float32(0)
            weight[m * P + p] *= there
            heads[(m * H + Y) * P + p] *= there
            gate[m * P + p] = weight[m * P + p] * heads[(m * H + Y) * P + p] * np.float32(GAIN / count)


@compiled
def answer_member(
    read: Array, valid: Array, g: int, sizes: Array, weights: Array, scratch: Array, pooled: Array
) -> None:
    """Fills weight (M, P), heads (M, H, P), gate (M, P) of `scratch`, and pooled (D,)."""
    stem, mix, mix_bias, inner, inner_bias, head, head_bias, place = weights
    D, M, chosen, H, Y, P = sizes
    token, mixed, hidden, heads, weight, gate, mean, spread = scratch
    width, all_experts = len(mix_bias[g]), len(inner_bias[g])
    product_from_tokens((stem[g], read, place[g], token), (0, 0, 0, 0, len(read) // P, width, P))
    gelu(token, 0, width * P)
    product((mix[g], token, mix_bias[g], mixed), (0, 0, 0, 0, D, width, P))
    normalize(mixed, D, P, mean, spread)
    product((inner[g], mixed, inner_bias[g], hidden), (0, 0, 0, 0, D, all_experts, P))
    route(hidden, M * D * P, M, P, chosen, weight)
    silu(hidden, 0, M * D * P)
    for m in range(M):
        product((head[g], hidden, head_bias[g], heads), (m * D * H, m * D * P, m * H, m * H * P, D, H, P))
        sigmoid(heads, (m * H + Y) * P, P)
    gates(weight, heads, valid, (M, H, Y, P), gate)
    pool_tokens((hidden, gate, pooled), (M, D, P))


@inlined
def write_answer(scratch: Array, sizes: Array, place: Array, found: Array) -> None:
    """What each token and expert adds, and its gates."""
    M, H, Y, P = sizes
    g, b = place
    _, _, total, values, weights, reliabilities = found
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
def write_logits(pooled: Array, summary: Array, ends: Array, place: Array, found: Array) -> None:
    """Context from the summary of the series, and the class head applied to the pooled hidden evidence."""
    head, weights, bias = ends
    g, b = place
    logits, context = found[0], found[1]
    for y in range(bias.shape[1]):
        known = bias[g, y]
        for index in range(len(summary)):
            known += summary[index] * weights[g, index, y]
        added = 0.0
        for d in range(head.shape[1]):
            added += pooled[d] * head[g, d, y]
        context[g, b, y], logits[g, b, y] = known, known + added


@compiled
def answer_all(given: Array, sizes: Array, weights: Array, ends: Array, found: Array) -> None:
    """given = x (G or 1, B, C, S), valid (B, P), summary (B, 2·C); found as in `CompiledCommittee.parts`."""
    x, valid, summary = given
    kernel, stride, D, M, chosen = sizes
    Y = found[0].shape[2]
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
        for g in range(len(found[0])):
            if g < len(x):
                read_tokens(x[g, b], kernel, stride, P, read)
            answer_member(read, valid[b], g, (D, M, chosen, H, Y, P), weights, scratch, pooled)
            write_answer(scratch, (M, H, Y, P), (g, b), found)
            write_logits(pooled, summary[b], ends, (g, b), found)
