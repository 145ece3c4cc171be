"""Several processes that train one model (torchrun): who am I, how many are we, and what we agree on."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, nn
from torch import distributed as dist

PATIENCE = timedelta(days=1)
"""The others wait while the first process fits the kernels; when a process dies, torchrun ends the rest by itself."""


def rank() -> int:
    """This process's number; 0 when it is alone."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@contextmanager
def joined(device: str = "cpu", environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Takes part in the group that torchrun started, if it did: over NCCL between GPUs, else over gloo."""
    if int(environment.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


def own_device(device: str, environment: Mapping[str, str] = os.environ) -> str:
    """Each process of a machine gets a GPU of its own; `cpu` and a named GPU stay what they are."""
    return f"cuda:{environment['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in environment else device


def any_rank(asked: bool, device: torch.device) -> bool:
    """True for everybody as soon as one process asks: so all of them stop at the same step."""
    if world() == 1:
        return asked
    vote = torch.tensor([float(asked)], device=device)
    dist.all_reduce(vote)
    return bool(vote.item() > 0)


def broadcast_from_rank0(make: Callable[[], Tensor], device: torch.device) -> Tensor:
    """Bytes (N,) that only the first process makes, for all of them.

    When it fails or is interrupted, it raises what stopped it, and the others a KeyboardInterrupt: nobody waits.
    """
    if world() == 1:
        return make()
    own: Tensor | None = None
    try:
        own = make() if rank() == 0 else None
    finally:
        size = torch.tensor([-1 if own is None else len(own)], device=device)
        dist.broadcast(size, 0)
    if size.item() < 0:
        raise KeyboardInterrupt
    message = torch.empty(int(size.item()), dtype=torch.uint8, device=device) if own is None else own.to(device)
    dist.broadcast(message, 0)
    return message.cpu()


def share_gradients(model: nn.Module, total: Tensor) -> Tensor:
    """Adds up the gradients, and a loss, over the processes, in one message."""
    if world() == 1:
        return total
    parameters = list(model.parameters())
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    message = torch.cat([*(grad.flatten() for grad in grads), total.reshape(1)])
    dist.all_reduce(message)
    _take_over(parameters, message[:-1])
    return message[-1]


def _take_over(parameters: list[nn.Parameter], summed: Tensor) -> None:
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, part in zip(parameters, torch.split(summed, sizes), strict=True):
        parameter.grad = part.view_as(parameter).clone()
