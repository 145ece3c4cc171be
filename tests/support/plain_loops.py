"""The functions of anchormoe.simd as plain loops: the oracle of their tests, and the comparison of the backends' bench.

They take the same arguments. numba compiles them as they are; see docs/decisions/0008 for what that costs.
"""

import math
from typing import Any

import numpy as np

LANES = 16


def define_sum_taps(taps: int) -> Any:
    def sum_taps(arrays: Any, numbers: Any) -> None:
        series, out = arrays
        d, length = numbers
        for t in range(length):
            out[t] = series[t]
        for tap in range(1, taps):
            shifted = series[d * tap :]
            for t in range(length):
                out[t] += shifted[t]

    return sum_taps


def pool_ppv(arrays: Any, numbers: Any) -> None:
    series, tap_sum, counted, biases, above, table, evidence = arrays
    a, b, c, first, last, bias, n, place, classes, stride = numbers
    count = max(0, last - first)
    value, exceeded = np.empty(count, np.int32), np.zeros(count, np.int32)
    at_a, at_b, at_c = series[a + first :], series[b + first :], series[c + first :]
    sums, counts = tap_sum[first:], counted[first:]
    for t in range(count):
        value[t] = 3 * (at_a[t] + at_b[t] + at_c[t]) - sums[t]
    for i in range(n):
        threshold, total = biases[bias + i], 0
        for t in range(count):
            exceeds = np.int32(value[t] > threshold and counts[t] != 0)
            exceeded[t] += exceeds
            total += int(exceeds)
        above[place + i] += total
    for y in range(classes):
        entries, target = table[LANES * y :], evidence[y * stride + first :]
        for t in range(count):
            if counts[t] != 0:
                target[t] += entries[exceeded[t]]


def define_pool_hydra(kernels: int, taps: int) -> Any:
    def pool_hydra(arrays: Any, numbers: Any) -> None:
        series, weights, counted, sums, smallest_counts, table, evidence = arrays
        d, first, last, weight, classes, stride = numbers
        count = max(0, last - first)
        response, most, least = np.zeros(count, np.float32), np.zeros(count, np.float32), np.zeros(count, np.float32)
        largest, smallest = np.zeros(count, np.int32), np.zeros(count, np.int32)
        for kernel in range(kernels):
            response[:] = 0
            for tap in range(taps):
                factor, shifted = weights[weight + taps * kernel + tap], series[first + d * tap :]
                for t in range(count):
                    response[t] += factor * shifted[t]
            for t in range(count):
                more, less = kernel == 0 or response[t] > most[t], kernel == 0 or response[t] < least[t]
                most[t], largest[t] = (response[t], kernel) if more else (most[t], largest[t])
                least[t], smallest[t] = (response[t], kernel) if less else (least[t], smallest[t])
        for t in range(count):
            if counted[first + t] != 0:
                sums[LANES * largest[t]] += np.int32(most[t])
                smallest_counts[smallest[t]] += 1
        for y in range(classes):
            entries, target = table[LANES * y :], evidence[y * stride + first :]
            for t in range(count):
                if counted[first + t] != 0:
                    target[t] += entries[largest[t]] * most[t] + entries[kernels + smallest[t]]

    return pool_hydra


def product(arrays: Any, numbers: Any) -> None:
    weights, inputs, start, out = arrays
    weight_at, input_at, start_at, out_at, n_inputs, n_outputs, tokens = numbers
    for o in range(n_outputs):
        row = out[out_at + o * tokens :]
        for p in range(tokens):
            row[p] = start[start_at + o]
        for i in range(n_inputs):
            weight, read = weights[weight_at + i * n_outputs + o], inputs[input_at + i * tokens :]
            for p in range(tokens):
                row[p] += weight * read[p]


def product_from_tokens(arrays: Any, numbers: Any) -> None:
    weights, inputs, start, out = arrays
    weight_at, input_at, start_at, out_at, n_inputs, n_outputs, tokens = numbers
    for o in range(n_outputs):
        row, first = out[out_at + o * tokens :], start[start_at + o * tokens :]
        for p in range(tokens):
            row[p] = first[p]
        for i in range(n_inputs):
            weight, read = weights[weight_at + i * n_outputs + o], inputs[input_at + i * tokens :]
            for p in range(tokens):
                row[p] += weight * read[p]


def exp(array: Any, first: int, count: int) -> None:
    for i in range(first, first + count):
        array[i] = math.exp(array[i])


def sigmoid(array: Any, first: int, count: int) -> None:
    for i in range(first, first + count):
        array[i] = 1 / (1 + math.exp(-array[i]))


def silu(array: Any, first: int, count: int) -> None:
    for i in range(first, first + count):
        array[i] = array[i] / (1 + math.exp(-array[i]))


def gelu(array: Any, first: int, count: int) -> None:
    for i in range(first, first + count):
        array[i] = 0.5 * array[i] * math.erfc(-array[i] / math.sqrt(2))


def pool_tokens(arrays: Any, numbers: Any) -> None:
    hidden, gate, pooled = arrays
    experts, width, tokens = numbers
    for d in range(width):
        total = 0.0
        for p in range(tokens):
            of_token = np.float32(0)
            for m in range(experts):
                of_token += gate[m * tokens + p] * hidden[(m * width + d) * tokens + p]
            total += float(of_token)
        pooled[d] = total
