"""Reads and parses the files of a bundle without trusting them: fixed names, size limits, no code, no NaN."""

import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from anchormoe.errors import ModelError

MODEL, CONFIG, NORMALIZER = "model.safetensors", "config.json", "normalizer.json"
PLAUSIBILITY = "plausibility.json"
CALIBRATION, GOLDEN, CARD, MANIFEST = "calibration.json", "golden.safetensors", "MODEL_CARD.md", "manifest.json"
REQUIRED = (MODEL, CONFIG, NORMALIZER, CALIBRATION, GOLDEN, CARD)
"""In addition to the manifest."""
CHANNEL_PROFILE = "channel_profile.safetensors"
"""Read where it is there: bundles of format 1 have none."""
EXPERTS, SEGMENTS = "experts.json", "experts.safetensors"
"""Expert profiles, both or neither: bundles from before they were stored have none."""
EXTRAS = (PLAUSIBILITY, "metrics.jsonl", "curves.png", "reliability.png", "confusion.png", "experts.png")

_MEGABYTE = 1 << 20
MAX_BYTES: Mapping[str, int] = {MODEL: 2048 * _MEGABYTE, GOLDEN: 512 * _MEGABYTE}
MAX_OTHER_BYTES = 16 * _MEGABYTE
_DTYPES = frozenset({"float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"})

Tensors = dict[str, NDArray[Any]]


def read_file(directory: Path, name: str) -> bytes:
    """A regular file, not a link, within the size limit of its kind. Raises ModelError."""
    limit = MAX_BYTES.get(name, MAX_OTHER_BYTES)
    with os.fdopen(_open(directory, name), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ModelError(f"{name}: not a regular file")
        if facts.st_size > limit:
            raise ModelError(f"{name}: {facts.st_size} bytes, at most {limit} are allowed")
        return file.read(limit)


def _open(directory: Path, name: str) -> int:
    """What is opened is what is examined: the file cannot be exchanged in between. A pipe does not block."""
    try:
        return os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ModelError(f"{name}: missing in {directory}") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):  # a link, a socket
            raise ModelError(f"{name}: not a regular file") from None
        raise


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def parse_json(content: bytes, name: str) -> dict[str, Any]:
    """A JSON object in UTF-8 without NaN, infinity, integers beyond 64 bits or half characters. Raises ModelError."""
    try:
        value = json.loads(
            content.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_bounded_int, parse_float=_finite_float
        )
        # A lone surrogate, written as an escape, is no character: the first event with it could not be encoded.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{name}: expected a JSON object")
    return value


def _bounded_int(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{text[:20]}… is too large a number")
    return value


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def dump_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n").encode()


def parse_tensors(content: bytes, name: str) -> Tensors:
    """safetensors, never pickle; known dtypes, finite values; no tensor larger than the file. Raises ModelError."""
    try:
        tensors = load_tensors(content)
    # The reader raises a bare KeyError on a dtype it does not know and TypeError on odd headers.
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{name}: not a safetensors file: {error}") from error
    for key, tensor in tensors.items():
        if tensor.dtype.name not in _DTYPES:
            raise ModelError(f"{name}: tensor {key} has the dtype {tensor.dtype}")
        if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
            raise ModelError(f"{name}: tensor {key} is not finite")
    return dict(tensors)


def dump_tensors(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    # Not np.ascontiguousarray: it would give a scalar an axis.
    return bytes(save_tensors({name: np.asarray(tensors[name], order="C") for name in sorted(tensors)}))


def tensor_specs(tensors: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Names, dtypes and shapes, as config.json lists them."""
    return {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in sorted(tensors.items())}


def require_specs(tensors: Mapping[str, NDArray[Any]], listed: Any) -> None:
    """model.safetensors holds exactly the tensors that config.json lists. Raises ModelError."""
    if not isinstance(listed, dict):
        raise ModelError(f"{CONFIG}: tensors: expected keys and values, not {listed!r:.60}")
    found = tensor_specs(tensors)
    for name in sorted(set(found) | set(listed)):
        if name not in found:
            raise ModelError(f"{MODEL}: tensor {name} is missing")
        if name not in listed:
            raise ModelError(f"{MODEL}: tensor {name} is not in {CONFIG}")
        if found[name] != listed[name]:
            raise ModelError(f"{MODEL}: tensor {name} is {found[name]}, {CONFIG} lists {listed[name]}")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not allowed")
