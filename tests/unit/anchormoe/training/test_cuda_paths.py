"""Every path that computes on a GPU, on a pretended one: devices, shapes and types of all operations are checked.

Nothing is computed, so whether the numbers are right is left to the CPU's tests and to `bundle verify --device cuda`.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.evidence import SourceOutput
from anchormoe.experts.fit import fit_committee
from anchormoe.experts.settings import CommitteeSettings
from anchormoe.kernels.fit import fit_kernel
from anchormoe.kernels.settings import KernelSettings
from anchormoe.paper.fit import fit_paper
from anchormoe.paper.settings import PaperSettings
from anchormoe.training.devices import to_device
from anchormoe.training.task import FitTask
from tests.support.fake_cuda import fake_cuda

FITS: dict[str, Callable[[FitTask], Any]] = {
    "kernel": lambda task: fit_kernel(task, KernelSettings()),
    "experts": lambda task: fit_committee(task, CommitteeSettings(min_steps=2, max_steps=2)),
    "paper": lambda task: fit_paper(task, PaperSettings(epochs=2)),
}
TRAINED = ("experts", "paper")


def some_cases(*, missing: bool) -> Cases:
    x = np.random.default_rng(3).normal(size=(12, 3, 40)).astype(np.float32)
    if missing:
        x[2, 1, 5:9] = np.nan
        x[5, 0] = np.nan
    return Cases.from_arrays(x)


def task(device: str) -> FitTask:
    return FitTask(some_cases(missing=True), np.arange(12, dtype=np.int64) % 2, 2, seed=0, device=device)


@cache
def source_on_cpu(name: str) -> Any:
    return FITS[name](task("cpu")).source


def outputs(source: Any, cases: Cases) -> list[SourceOutput]:
    found = source.forward(cases)
    return found if isinstance(found, list) else [found]


def arrays(found: SourceOutput) -> Iterator[tuple[str, Any]]:
    yield "logits", found.logits
    yield "context", found.context
    for name in ("start", "stop", "values", "expert_values", "weight", "reliability", "admission", "far"):
        yield name, getattr(found.evidence, name)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", FITS)
def test_serving_on_a_gpu_gives_the_host_what_the_cpu_gives_it(name: str, missing: bool) -> None:
    cases = some_cases(missing=missing)
    expected = outputs(source_on_cpu(name), cases)
    moved = type(source_on_cpu(name)).from_parts(source_on_cpu(name).config(), source_on_cpu(name).tensors())
    with fake_cuda(truth=not missing) as seen:
        source = moved.to("cuda")
        assert source.backend == "torch"
        found = outputs(source, cases)
    for one, other in zip(found, expected, strict=True):
        for (what, given), (_, wanted) in zip(arrays(one), arrays(other), strict=True):
            assert (given is None) == (wanted is None), what
            assert given is None or (given.shape, given.dtype) == (wanted.shape, wanted.dtype), what
    assert seen.pinned > 0, "windows get to a GPU through pinned memory"
    half = {operation for operation, kinds in seen.operations.items() if torch.bfloat16 in kinds}
    assert not half, "answers are computed in full precision"


@pytest.mark.parametrize("truth", [False, True])
@pytest.mark.parametrize("name", TRAINED)
def test_training_on_a_gpu_goes_forward_and_back_in_bfloat16_and_updates(name: str, truth: bool) -> None:
    with fake_cuda(truth=truth) as seen:
        fitted = FITS[name](task("cuda"))
        stored = fitted.source.tensors()
    assert {one.dtype for one in stored.values()} == {np.dtype(np.float32)}, "parameters stay in full precision"
    assert seen.operations["add_"] == {torch.float32}, "and are updated in it, on the device"
    products = {"bmm", "mm", "addmm", "baddbmm"} & set(seen.operations)
    assert any(torch.bfloat16 in seen.operations[product] for product in products)
    assert {"sigmoid_backward", "tanh_backward", "_softmax_backward_data", "native_layer_norm_backward"} & set(
        seen.operations
    ), "gradients were computed on the device, too"


def test_a_kernel_model_is_trained_on_the_cpu_whatever_the_device() -> None:
    with fake_cuda() as seen:
        fitted = FITS["kernel"](task("cuda"))
    assert not seen.operations
    assert np.isfinite(fitted.oof_logits).all()


def test_the_pretended_gpu_refuses_what_a_real_one_refuses() -> None:
    with fake_cuda():
        moved = to_device("cuda", np.zeros(3, np.float32))
        with pytest.raises(RuntimeError, match="device"):
            moved + torch.zeros(3)
        with pytest.raises(TypeError, match="copy it to the host"):
            moved.numpy()
        with pytest.raises(RuntimeError, match="size"):
            moved @ to_device("cuda", np.zeros(4, np.float32))
