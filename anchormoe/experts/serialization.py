"""Stores a committee as configuration and tensors, and reads it strictly. Pure."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchormoe.cases import Float32
from anchormoe.conversion import from_stored
from anchormoe.errors import ModelError
from anchormoe.evidence import Json
from anchormoe.experts.shape import MAX_MEMBERS, NetShape, Weights, tensor_shapes

MAX_KERNEL = 4_097


def shape_config(shape: NetShape) -> dict[str, Json]:
    """JSON; `read_weights` reads it with the tensors."""
    lists = {"positioned": list(shape.positioned), "centred": list(shape.centred)}
    return {**asdict(shape), **lists, "read": [list(own) for own in shape.read]}


def read_weights(config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> tuple[NetShape, Weights]:
    """Raises ModelError on inconsistent keys, sizes, shapes or values."""
    shape = _read_shape(config)
    expected = tensor_shapes(shape)
    if set(expected) != set(tensors):
        raise ModelError(f"experts: missing or unknown tensors {sorted(set(expected) ^ set(tensors))}")
    return shape, {name: _read_tensor(name, tensors[name], size) for name, size in expected.items()}


def _read_tensor(name: str, values: NDArray[Any], shape: tuple[int, ...]) -> Float32:
    if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
        raise ModelError(f"experts: tensor {name}: expected finite float32 {shape}, got {values.dtype} {values.shape}")
    return values.copy()


def _read_shape(config: Mapping[str, Json]) -> NetShape:
    earlier: dict[str, Json] = {"bounded": False}  # bundles from before this key existed
    shape = from_stored(NetShape, {**earlier, **config}, "experts")
    if shape.chosen > shape.experts:
        raise ModelError(f"experts.chosen: {shape.chosen} of {shape.experts} experts")
    if not shape.positioned or len(shape.positioned) != len(shape.centred):
        members = f"positioned lists {len(shape.positioned)}, centred {len(shape.centred)}"
        raise ModelError(f"experts: positioned and centred need one entry per member; {members}")
    _require_channels(shape)
    if shape.members > MAX_MEMBERS:
        raise ModelError(f"experts: {shape.members} members, at most {MAX_MEMBERS} are allowed")
    if shape.geometry.kernel > MAX_KERNEL or max(shape.geometry.pool, shape.geometry.stride) > shape.geometry.length:
        raise ModelError(
            f"experts.geometry: expected kernel <= {MAX_KERNEL}, pool <= length and stride <= length, "
            f"not {shape.geometry}"
        )
    if shape.geometry.kernel % 2 == 0:
        raise ModelError(f"experts.geometry.kernel: expected an odd number, not {shape.geometry.kernel}")
    return shape


def _require_channels(shape: NetShape) -> None:
    """Every member reads as many different channels of the data, in ascending order."""
    if shape.read and len(shape.read) != shape.members:
        raise ModelError(f"experts.read: expected one list for each of {shape.members} members, not {len(shape.read)}")
    for own in shape.read:
        if not own or len(own) != len(shape.read[0]) or own[-1] >= shape.channels:
            raise ModelError(f"experts.read: expected lists of equal length with channels below {shape.channels}")
        if any(a >= b for a, b in pairwise(own)):
            raise ModelError("experts.read: expected different channels in ascending order")
