"""A committee's weights for inference, for every backend: linear maps fused, constants computed once. Pure."""

from typing import NamedTuple

import numpy as np

from anchormoe.cases import Float32
from anchormoe.experts.geometry import Geometry
from anchormoe.experts.shape import WAVES, NetShape, Weights


class FusedWeights(NamedTuple):
    """Of G members, R channels, widths D and V, M experts, Y classes."""

    mix: Float32
    """(G, D, D), including the residual connection"""
    inner: Float32
    """(G, D, M·V + 2·M): experts, router, reliability, including the scale of the norm"""
    inner_bias: Float32
    """(G, 1, M·V + 2·M)"""
    head: Float32
    """(G, V, Y), centred over the classes"""
    level: Float32
    """(G, R, 2, Y), centred"""
    bias: Float32
    """(G, Y), centred"""


def fuse_weights(weights: Weights, shape: NetShape) -> FusedWeights:
    inner = np.concatenate((weights["expert"], weights["router"], weights["reliability"]), -1)
    unbiased = np.zeros((shape.members, 1, shape.experts), np.float32)  # the router
    bias = np.concatenate((weights["expert_bias"], unbiased, weights["reliability_bias"]), -1)
    return FusedWeights(
        mix=weights["mix"] + np.eye(shape.width, dtype=np.float32),
        inner=np.swapaxes(weights["norm"], 1, 2) * inner,
        inner_bias=bias + np.matmul(weights["norm_bias"], inner),
        head=centre_classes(weights["head"]),
        level=centre_classes(weights["level"]),
        bias=centre_classes(weights["bias"]),
    )


def stem_start(weights: Weights, shape: NetShape, positions: int) -> Float32:
    """(G, P, D): the stem's bias, plus the position code for members that have one."""
    has_position = np.array(shape.positioned)[:, None, None]
    place = np.matmul(position_code(positions, shape.geometry), weights["place"])
    return np.asarray(weights["stem_bias"] + place * has_position, np.float32)


def position_code(tokens: int, geometry: Geometry) -> Float32:
    """(P, 2·WAVES) slow waves over TRAIN's length; they depend on the position alone, not on padding."""
    t = np.arange(tokens, dtype=np.float32) * np.float32(geometry.stride * geometry.pool / geometry.length)
    angle = np.float32(np.pi) * t[:, None] * np.arange(1, WAVES + 1, dtype=np.float32)
    return np.concatenate((np.sin(angle), np.cos(angle)), -1)


def centre_classes(values: Float32) -> Float32:
    """Without the mean over the last axis."""
    return np.asarray(values - values.mean(-1, keepdims=True), np.float32)


def pad_columns(weight: Float32, multiple: int) -> Float32:
    """With zeros after the last column, up to a multiple."""
    extra = -weight.shape[-1] % multiple
    return np.ascontiguousarray(np.pad(weight, [(0, 0)] * (weight.ndim - 1) + [(0, extra)]))
