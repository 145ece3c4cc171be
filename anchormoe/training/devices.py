"""Arrays onto the device that computes."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(device: torch.device | str, values: NDArray[Any]) -> Tensor:
    """Shares memory with the array where it can. To a GPU through pinned memory, so that nobody waits for the copy."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
