"""A committee's network as plain configuration and tensors, and strictly back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.conversion import from_stored
from anchormoe.errors import ModelError
from anchormoe.evidence import Json
from anchormoe.experts.net import CommitteeNet, NetShape


def config_of(shape: NetShape) -> dict[str, Json]:
    """JSON; `net_of` takes it back."""
    return {**asdict(shape), "positioned": list(shape.positioned), "centred": list(shape.centred)}


def net_of(config: Mapping[str, Json], tensors: Mapping[str, NDArray[Any]]) -> CommitteeNet:
    """Raises ModelError on keys, sizes, shapes or values that do not fit each other."""
    shape = _shape_of(config)
    # On the meta device nothing is allocated yet, so that a size out of a damaged file cannot fill the memory.
    with torch.device("meta"):
        net = CommitteeNet(shape)
    wanted = net.state_dict()
    if set(wanted) != set(tensors):
        raise ModelError(f"experts: tensors {sorted(set(wanted) ^ set(tensors))} are missing or unknown")
    checked = {name: _tensor(name, tensors[name], tuple(values.shape)) for name, values in wanted.items()}
    net.load_state_dict(checked, assign=True)
    return net.requires_grad_(False)


def _tensor(name: str, values: NDArray[Any], shape: tuple[int, ...]) -> torch.Tensor:
    if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
        raise ModelError(f"experts: tensor {name} should be finite float32 {shape}, not {values.dtype} {values.shape}")
    return torch.from_numpy(values.copy())


def _shape_of(config: Mapping[str, Json]) -> NetShape:
    shape = from_stored(NetShape, config, "experts")
    if shape.chosen > shape.experts:
        raise ModelError(f"experts.chosen: {shape.chosen} of {shape.experts} experts")
    if not shape.positioned or len(shape.positioned) != len(shape.centred):
        members = f"positioned lists {len(shape.positioned)}, centred {len(shape.centred)}"
        raise ModelError(f"experts: positioned and centred need one entry per member; {members}")
    if shape.geometry.kernel % 2 == 0:
        raise ModelError(f"experts.geometry.kernel: expected an odd number, not {shape.geometry.kernel}")
    return shape
