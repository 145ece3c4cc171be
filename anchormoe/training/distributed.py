"""Several processes that train one model (torchrun): rank, world size, collective operations."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, nn
from torch import distributed as dist

TIMEOUT = timedelta(days=1)
"""The others wait while rank 0 fits the kernels; when a process dies, torchrun ends the rest by itself."""


def rank() -> int:
    """This process's number; 0 when it is alone."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@contextmanager
def process_group(device: str = "cpu", environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Joins the group that torchrun started, if it did: over NCCL between GPUs, else over gloo."""
    if int(environment.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo", timeout=TIMEOUT)
    try:
        yield
    finally:
        dist.destroy_process_group()


def any_rank(flag: bool, device: torch.device) -> bool:
    """True in every process as soon as the flag is set in one, so that all stop at the same step."""
    if world() == 1:
        return flag
    vote = torch.tensor([float(flag)], device=device)
    dist.all_reduce(vote)
    return bool(vote.item() > 0)


def broadcast_from_rank0(make: Callable[[], bytes], device: torch.device) -> bytes:
    """Bytes that rank 0 makes, in every process.

    Where `make` raises, rank 0 raises it and the others a KeyboardInterrupt, so that none waits.
    """
    if world() == 1:
        return make()
    made: Tensor | None = None
    try:
        made = torch.frombuffer(bytearray(make()), dtype=torch.uint8) if rank() == 0 else None
    finally:
        size = torch.tensor([-1 if made is None else len(made)], device=device)
        dist.broadcast(size, 0)
    if size.item() < 0:
        raise KeyboardInterrupt
    message = torch.empty(int(size.item()), dtype=torch.uint8, device=device) if made is None else made.to(device)
    dist.broadcast(message, 0)
    return message.cpu().numpy().tobytes()


def share_gradients(model: nn.Module, total: Tensor) -> Tensor:
    """Sums the gradients, and a loss, over the processes in one message."""
    if world() == 1:
        return total
    parameters = list(model.parameters())
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    message = torch.cat([*(grad.flatten() for grad in grads), total.reshape(1)])
    dist.all_reduce(message)
    _set_gradients(parameters, message[:-1])
    return message[-1]


def _set_gradients(parameters: list[nn.Parameter], summed: Tensor) -> None:
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, part in zip(parameters, torch.split(summed, sizes), strict=True):
        parameter.grad = part.view_as(parameter).clone()
