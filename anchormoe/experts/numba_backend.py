"""A committee's network compiled for one window at a time, without the many small calls of torch.

Arrays inside are flat, rows of P tokens: (inputs, P), (width, P), (experts × width, P). P is a multiple of LANES, and
results beyond the last token are not used.
"""

from functools import lru_cache

import numpy as np

from anchormoe.cases import Cases, Float32, Float64
from anchormoe.experts.fused_weights import fuse_weights, pad_columns, stem_start
from anchormoe.experts.series import member_arrays, prepare_series
from anchormoe.experts.shape import GAIN, CommitteeOutput, NetShape, Weights
from anchormoe.simd.jit import Array, compiled, inlined
from anchormoe.simd.products import OUTPUTS, exp, gelu, pool_tokens, product, product_from_tokens, sigmoid
from anchormoe.simd.vectors import LANES

_EPSILON = np.float32(1e-5)


class NumbaCommittee:
    """A committee's weights, prepared for compiled code. Thread-safe: calls share nothing but constants."""

    def __init__(self, shape: NetShape, weights: Weights) -> None:
        self.shape, fused = shape, fuse_weights(weights, shape)
        inner, inner_bias = fused.inner.copy(), fused.inner_bias.copy()
        opened = shape.experts * shape.value_width
        for part in (inner, inner_bias):  # tanh(x) = 2 / (1 + exp(-2 x)) - 1
            part[..., :opened] *= 2
        value = weights["value"] * 2 if shape.bounded else weights["value"]
        flat = (weights["stem"], fused.mix, weights["mix_bias"], inner, inner_bias, value, fused.head)
        self._weights = tuple(_flat(pad_columns(weight, OUTPUTS)) for weight in flat)
        self._readout = tuple(each.astype(np.float64) for each in (fused.head, fused.level, fused.bias))
        self._level_mean = weights["level_mean"].copy()
        self._stem_start = lru_cache(maxsize=8)(lambda tokens: _flat_stem_start(weights, shape, tokens))

    def forward(self, cases: Cases) -> CommitteeOutput:
        """Of cases with the channels that any member reads."""
        shape = self.shape
        arrays = member_arrays(prepare_series(cases, shape.geometry), shape)
        (_, B, R, P), G, M, Y = arrays.valid.shape, shape.members, shape.experts, shape.classes
        geometry, own = shape.geometry, (shape.width, shape.value_width, M, shape.chosen, shape.bounded)
        sizes = (geometry.kernel, geometry.stride, *own)
        outputs = tuple(np.zeros((G, B, *rest)) for rest in (
            (Y,), (P + 1, R, Y), (P + 1, R, M + 1, Y), (P, M), (P, M)
        ))  # fmt: skip
        weights = (*self._weights, self._stem_start(P))
        run_committee(tuple(arrays), sizes, weights, (*self._readout, self._level_mean), outputs)
        return CommitteeOutput(*outputs)

    def logits(self, cases: Cases) -> Float64:
        """(G, B, Y); the explanation costs so little that this is not faster."""
        return self.forward(cases).logits


def _flat_stem_start(weights: Weights, shape: NetShape, tokens: int) -> Float32:
    """(G, D'·P'): what the stem's product is added to."""
    rounded = -(-tokens // LANES) * LANES
    return _flat(np.swapaxes(pad_columns(stem_start(weights, shape, rounded), OUTPUTS), 1, 2))


def _flat(weight: Float32) -> Float32:
    """(G, …) to one row per member."""
    return np.ascontiguousarray(weight.reshape(len(weight), -1), np.float32)


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
def tanh_of_half(values: Array, count: int) -> None:
    sigmoid(values, 0, count)
    for index in range(count):
        values[index] = 2 * values[index] - np.float32(1)


@compiled
def run_token(read: Array, g: int, sizes: Array, weights: Array, scratch: Array) -> None:
    """Fills `opening` with the experts' gates (M, V, P), routing scores (M, P) and κ (M, P), and weight (M, P)."""
    stem, mix, mix_bias, inner, inner_bias, _, _, start = weights
    D, V, M, chosen, P = sizes
    token, mixed, opening, weight, mean, spread = scratch
    width, all_experts, opened = len(mix_bias[g]), len(inner_bias[g]), M * V * P
    product_from_tokens((stem[g], read, start[g], token), (0, 0, 0, 0, len(read) // P, width, P))
    gelu(token, 0, width * P)
    product((mix[g], token, mix_bias[g], mixed), (0, 0, 0, 0, D, width, P))
    normalize(mixed, D, P, mean, spread)
    product((inner[g], mixed, inner_bias[g], opening), (0, 0, 0, 0, D, all_experts, P))
    route(opening, opened, M, P, chosen, weight)
    tanh_of_half(opening, opened)
    sigmoid(opening, opened + M * P, M * P)


@compiled
def run_channel(
    read: Array, valid: Array, positions: int, place: Array, sizes: Array, weights: Array, arrays: Array
) -> None:
    """What one channel adds: fills hidden (M, V, P), heads (M, H, P), gate (M, P) and pooled (V,).

    place = member, channel; arrays = opening and weight of `run_token`, then value (V, P), no bias (H,), and those.
    """
    values, head = weights[5], weights[6]
    g, c = place
    V, M, H, P, kernel, bounded = sizes
    opening, weight, value, nothing, hidden, heads, gate, pooled = arrays
    columns = len(value) // P
    first = c * kernel
    product((values[g], read, nothing, value), (first * columns, first * P, 0, 0, kernel, columns, P))
    if bounded:
        tanh_of_half(value, len(value))
    scale, reliability = np.float32(GAIN) / np.float32(max(1, positions)), (M * V + M) * P
    for m in range(M):
        for index in range(V * P):
            hidden[m * V * P + index] = opening[m * V * P + index] * value[index]
        product((head[g], hidden, nothing, heads), (0, m * V * P, 0, m * H * P, V, H, P))
        for p in range(P):
            used = scale if p < len(valid) and valid[p] else np.float32(0)
            gate[m * P + p] = weight[m * P + p] * opening[reliability + m * P + p] * used
    pool_tokens((hidden, gate, pooled), (M, V, P))


@inlined
def write_evidence(heads: Array, gate: Array, sizes: Array, place: Array, outputs: Array) -> None:
    """What each token and expert of a channel adds."""
    M, H, Y, P = sizes
    g, b, c = place
    _, total, values, weights, _ = outputs
    for p in range(weights.shape[2]):
        for m in range(M):
            for y in range(Y):
                amount = np.float64(heads[(m * H + y) * P + p] * gate[m * P + p])
                values[g, b, p, c, m, y] = amount
                total[g, b, p, c, y] += amount


@inlined
def write_gates(opening: Array, weight: Array, valid: Array, sizes: Array, place: Array, outputs: Array) -> None:
    """Routing weight and κ, 0 where no channel (R, P) is valid."""
    M, V, P = sizes
    g, b = place
    for p in range(valid.shape[1]):
        if np.any(valid[:, p]):
            for m in range(M):
                outputs[3][g, b, p, m] = weight[m * P + p]
                outputs[4][g, b, p, m] = opening[(M * V + M + m) * P + p]


@inlined
def add_logits(pooled: Array, head: Array, g: int, b: int, logits: Array) -> None:
    """The class head applied to the pooled hidden evidence of a channel."""
    for y in range(head.shape[2]):
        of_tokens = 0.0
        for d in range(head.shape[1]):
            of_tokens += pooled[d] * head[g, d, y]
        logits[g, b, y] += of_tokens


@inlined
def add_level(deviation: Array, level: Array, place: Array, outputs: Array) -> None:
    """The evidence of a channel's median and mean: the last expert of the last unit, which is the whole window."""
    g, b, c = place
    logits, total, values, _, _ = outputs
    for y in range(level.shape[3]):
        amount = deviation[0] * level[g, c, 0, y] + deviation[1] * level[g, c, 1, y]
        values[g, b, -1, c, -1, y] = total[g, b, -1, c, y] = amount
        logits[g, b, y] += amount


@inlined
def zeros(size: int) -> Array:
    return np.zeros(size, np.float32)


@compiled
def run_committee(inputs: Array, sizes: Array, weights: Array, readout: Array, outputs: Array) -> None:
    """inputs are those of `MemberArrays`, outputs those of `CommitteeOutput`."""
    x, deviations, valid, summary, present, positions = inputs
    head, level, bias, level_mean = readout
    kernel, stride, D, V, M, chosen, bounded = sizes
    G, B, Y = outputs[0].shape
    R = x.shape[2]
    P, H = -(-valid.shape[3] // LANES) * LANES, -(-Y // OUTPUTS) * OUTPUTS
    width, inner, columns = len(weights[2][0]), len(weights[4][0]), -(-V // OUTPUTS) * OUTPUTS
    seen, read = zeros(R * kernel * P), zeros(R * kernel * P)
    opening, weight = zeros(inner * P), zeros(M * P)
    scratch = (zeros(width * P), zeros(width * P), opening, weight, zeros(P), zeros(P))
    heads, gate, pooled, deviation = zeros(M * H * P), zeros(M * P), np.zeros(V), np.zeros(2)
    arrays = (opening, weight, zeros(columns * P), zeros(max(columns, H)), zeros(M * V * P), heads, gate, pooled)
    for b in range(B):
        for g in range(G):
            own = min(g, len(valid) - 1)
            if g < len(x):
                read_tokens(x[g, b], kernel, stride, P, seen)
            if g < len(deviations):
                read_tokens(deviations[g, b], kernel, stride, P, read)
            run_token(seen, g, (D, V, M, chosen, P), weights, scratch)
            write_gates(opening, weight, valid[own, b], (M, V, P), (g, b), outputs)
            outputs[0][g, b] = bias[g]
            for c in range(R):
                sizes_of_channel = (V, M, H, P, kernel, bounded)
                run_channel(read, valid[own, b, c], positions[0, b], (g, c), sizes_of_channel, weights, arrays)
                write_evidence(heads, gate, (M, H, Y, P), (g, b, c), outputs)
                add_logits(pooled, head, g, b, outputs[0])
                for index in range(2):
                    offset = (summary[own, b, c, index] - level_mean[g, c, index]) * np.float32(present[own, b, c])
                    deviation[index] = np.float64(offset)
                add_level(deviation, level, (g, b, c), outputs)
