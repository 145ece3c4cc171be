"""Which device is chosen, and how arrays get there; a GPU gets them through pinned memory."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from anchormoe.errors import DataError
from anchormoe.training import devices
from anchormoe.training.devices import resolve_device, to_device


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> bool:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: request.param)
    monkeypatch.setattr(devices, "_has_driver", lambda: request.param)
    return bool(request.param)


@pytest.mark.parametrize(
    ("gpu", "wanted", "environment", "device"),
    [
        (False, "auto", {}, "cpu"),
        (False, "cpu", {}, "cpu"),
        (True, "cpu", {"LOCAL_RANK": "1"}, "cpu"),
        (True, "auto", {}, "cuda"),
        (True, "auto", {"LOCAL_RANK": "1"}, "cuda:1"),
        (True, "cuda", {"LOCAL_RANK": "1"}, "cuda:1"),
        (True, "cuda:0", {"LOCAL_RANK": "1"}, "cuda:0"),
        (True, "cuda", {}, "cuda"),
    ],
    indirect=["gpu"],
)
def test_the_device_that_is_used(gpu: bool, wanted: str, environment: dict[str, str], device: str) -> None:
    assert resolve_device(wanted, environment) == device


@pytest.mark.parametrize(
    ("gpu", "wanted", "reason"),
    [
        (True, "abacus", "device abacus: expected auto, cpu, cuda or cuda:N"),
        (True, "cuda:first", "device cuda:first: expected auto"),
        (True, "cuda:", "device cuda:: expected auto"),
        (False, "cuda", "device cuda: torch finds no CUDA device here"),
        (False, "cuda:1", "device cuda:1: torch finds no CUDA device here"),
    ],
    indirect=["gpu"],
)
def test_a_device_that_does_not_exist_is_named(gpu: bool, wanted: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        resolve_device(wanted, {})


def test_without_torch_a_gpu_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_is_installed", lambda package: False)
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    assert resolve_device("auto", {}) == "cpu"
    with pytest.raises(DataError, match=r"device cuda:1 needs torch, .*anchormoe-agent\[gpu\]"):
        resolve_device("cuda:1", {})


def test_the_cpu_and_a_machine_without_a_driver_need_no_torch() -> None:
    program = (
        "import sys; from anchormoe.training import devices; devices._has_driver = lambda: False;"
        "assert devices.resolve_device('cpu') == 'cpu' == devices.resolve_device('auto');"
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_values_and_types_stay_as_they_are() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for array in (values, values.T, values > 2):
        moved = to_device("cpu", array)
        assert moved.numpy().dtype == array.dtype
        np.testing.assert_array_equal(moved.numpy(), array)


def test_a_gpu_gets_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU only the calls can be seen."""
    calls: list[object] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        calls.append("pinned")
        return tensor

    def move(tensor: torch.Tensor, device: str, **how: bool) -> torch.Tensor:
        calls.append((device, how))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", move)
    to_device("cuda:1", np.zeros(3))
    assert calls == ["pinned", ("cuda:1", {"non_blocking": True})]
