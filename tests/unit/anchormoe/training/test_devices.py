"""Arrays arrive on the device as they are; a GPU gets them through pinned memory."""

import numpy as np
import pytest
import torch

from anchormoe.training.devices import to_device


def test_values_and_types_stay_as_they_are() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for array in (values, values.T, values > 2):
        placed = to_device("cpu", array)
        assert placed.numpy().dtype == array.dtype
        np.testing.assert_array_equal(placed.numpy(), array)


def test_a_gpu_gets_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU only what is asked for can be seen."""
    asked: list[object] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: asked.append("pinned") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device, **how: asked.append((device, how)) or tensor)
    to_device("cuda:1", np.zeros(3))
    assert asked == ["pinned", ("cuda:1", {"non_blocking": True})]
