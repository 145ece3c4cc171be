"""A committee's network as plain configuration and tensors, and strictly back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchormoe.errors import ModelError
from anchormoe.evidence import Json
from anchormoe.experts.net import CommitteeNet, NetShape
from anchormoe.experts.tokens import Geometry

_SIZES = ("channels", "classes", "width", "experts", "chosen")
_SWITCHES = ("admission", "spectral")
_LARGEST = 1 << 20
_GEOMETRY = ("kernel", "stride", "pool", "length")


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
    _require_keys(config, (*_SIZES, *_SWITCHES, "positioned", "centred", "geometry"), "experts")
    geometry, positioned, centred = config["geometry"], _switches(config["positioned"]), _switches(config["centred"])
    _require_keys(geometry, _GEOMETRY, "experts.geometry")
    sizes = {name: _size(config, name) for name in _SIZES}
    if sizes["chosen"] > sizes["experts"]:
        raise ModelError(f"experts: {sizes['chosen']} experts chosen of {sizes['experts']}")
    if len(positioned) != len(centred):
        raise ModelError(
            f"experts: {len(positioned)} members know their place or not, {len(centred)} are centred or not"
        )
    return NetShape(
        positioned=positioned,
        centred=centred,
        geometry=_odd(Geometry(**{name: _size(geometry, name) for name in _GEOMETRY})),
        admission=_switch(config["admission"]),
        spectral=_switch(config["spectral"]),
        **sizes,
    )


def _require_keys(config: Json, keys: tuple[str, ...], name: str) -> None:
    if not isinstance(config, Mapping) or set(config) != set(keys):
        raise ModelError(f"{name}: the configuration needs exactly the keys {', '.join(keys)}")


def _size(config: Mapping[str, Json], name: str) -> int:
    value = config[name]
    if type(value) is not int or not 1 <= value <= _LARGEST:
        raise ModelError(f"experts: {name} is {value!r}, not a whole number from 1 to {_LARGEST}")
    return value


def _switches(values: Json) -> tuple[bool, ...]:
    if not isinstance(values, list) or not values:
        raise ModelError("experts: positioned and centred need one true or false per member")
    return tuple(_switch(value) for value in values)


def _switch(value: Json) -> bool:
    if not isinstance(value, bool):
        raise ModelError(f"experts: {value!r} is neither true nor false")
    return value


def _odd(geometry: Geometry) -> Geometry:
    if geometry.kernel % 2 == 0:
        raise ModelError(f"experts: a kernel of {geometry.kernel} steps has no centre")
    return geometry
