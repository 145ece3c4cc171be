"""A CUDA device without a GPU: torch checks the devices, shapes and types of every operation, and computes nothing.

`FakeTensorMode` refuses an operation on tensors of different devices, as CUDA does. What leaves the device for the host
(numpy arrays, numbers, truth values) has no values here, so the host gets zeros, ones, or the truth value that a test
asks for.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(slots=True)
class Seen:
    """What happened on the device: operations by name with the types of their results, and copies."""

    operations: dict[str, set[torch.dtype]] = field(default_factory=dict)
    pinned: int = 0
    to_host: int = 0


class _Host(TorchFunctionMode):
    """Stands for the values that the host would read."""

    def __init__(self, seen: Seen, truth: bool) -> None:
        super().__init__()
        self._seen, self._truth = seen, truth

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        first: Any = args[0] if args else None
        if isinstance(first, FakeTensor):
            if name == "numpy":
                return self._array(first)
            if name in ("item", "__float__", "__int__", "__index__", "__bool__"):
                self._seen.to_host += first.device.type == "cuda"
                return {"__bool__": self._truth, "__int__": 1, "__index__": 1}.get(name, 1.0)
        if name == "pin_memory":
            assert first.device.type == "cpu", "only memory of the host can be pinned"
            self._seen.pinned += 1
            return first
        return function(*args, **(kwargs or {}))

    def _array(self, tensor: FakeTensor) -> Any:
        if tensor.device.type != "cpu":
            raise TypeError(f"can't convert {tensor.device} tensor to numpy: copy it to the host first")
        self._seen.to_host += 1
        return np.zeros(tuple(tensor.shape), _numpy_type(tensor.dtype))


def _numpy_type(kind: torch.dtype) -> Any:
    """Raises TypeError for types that numpy lacks, as torch does."""
    names = {"torch.bool": "bool"}
    return np.dtype(names.get(str(kind), str(kind).removeprefix("torch.")))


class _Record(TorchDispatchMode):
    def __init__(self, seen: Seen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._seen = seen

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, Tensor) and one.device.type == "cuda":
                self._seen.operations.setdefault(function.overloadpacket.__name__, set()).add(one.dtype)
        return found


def _move(module: nn.Module, convert: Any, recurse: bool = True) -> nn.Module:
    """`nn.Module._apply` without its exchange of tensors in place, which fake ones do not allow."""
    for child in module.children() if recurse else ():
        _move(child, convert)
    for name, one in module._parameters.items():
        if one is not None:
            module._parameters[name] = nn.Parameter(convert(one.detach()), one.requires_grad)
    for name, other in module._buffers.items():
        module._buffers[name] = None if other is None else convert(other)
    return module


@torch.no_grad()
def _backward(loss: Tensor, *_: Any, **__: Any) -> None:
    """Gradients of the parameters, node by node: torch's own engine asks for a real GPU even for fake tensors."""
    assert loss.grad_fn is not None
    gradients: dict[Any, list[Tensor | None]] = {loss.grad_fn: [torch.ones_like(loss)]}
    for node in _inputs_last(loss.grad_fn):
        given = gradients.pop(node)
        if hasattr(node, "variable"):
            node.variable.grad = given[0] if node.variable.grad is None else node.variable.grad + given[0]
            continue
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            given = [torch.zeros(one.shape, dtype=one.dtype, device=one.device) if grad is None else grad
                     for grad, one in zip(given, node._input_metadata, strict=True)]  # type: ignore[attr-defined]  # fmt: skip
            found = node.apply(*given)[: len(node.next_functions)]  # what is no tensor comes last in our functions
        else:
            found = node(*given)
        for gradient, (below, place) in zip(_several(found), node.next_functions, strict=True):
            if below is not None and gradient is not None:
                _add(gradients.setdefault(below, [None] * len(below._input_metadata)), place, gradient, below)
            elif below is not None:
                gradients.setdefault(below, [None] * len(below._input_metadata))


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def _add(given: list[Tensor | None], place: int, gradient: Tensor, node: Any) -> None:
    expected = node._input_metadata[place]
    assert gradient.device == expected.device, f"{node.name()}: a gradient on {gradient.device}"
    own = gradient.sum_to_size(tuple(expected.shape)).to(expected.dtype)
    before = given[place]
    given[place] = own if before is None else before + own


def _inputs_last(root: Any) -> list[Any]:
    """The nodes of a graph, each before the ones that it passes gradients to."""
    order: list[Any] = []
    seen, waiting = set(), [(root, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting.extend((below, False) for below, _ in node.next_functions if below is not None)
    return order[::-1]


@contextmanager
def fake_cuda(*, truth: bool = True) -> Iterator[Seen]:
    """`truth` is what every condition on a tensor of the device is."""
    seen = Seen()
    _forget_constants()
    state = torch.get_rng_state()
    with (
        patch.object(nn.Module, "_apply", _move),
        patch.object(Tensor, "backward", _backward),
        patch("torch.amp.autocast_mode.torch.cuda.amp.common.amp_definitely_not_available", lambda: False),
        patch("torch.cuda.is_bf16_supported", lambda *_, **__: True),
        patch("torch.cuda.get_rng_state", lambda *_: state),
        patch("torch.cuda.set_rng_state", lambda *_: None),
        patch("torch.cuda.manual_seed_all", lambda *_: None),
        FakeTensorMode(allow_non_fake_inputs=True),
        _Record(seen),
        _Host(seen, truth),
    ):
        yield seen
    _forget_constants()


def _forget_constants() -> None:
    """Tensors that functions keep between calls must be neither real ones in here nor fake ones out there."""
    for name, module in list(sys.modules.items()):
        if name.startswith("anchormoe."):
            for one in list(vars(module).values()):
                if isinstance(one, _lru_cache_wrapper):
                    one.cache_clear()
