"""`--device`: what was asked for, if it is there."""

from agent.errors import SettingsError


def present_device(wanted: str) -> str:
    """A name that torch knows; `auto` takes a GPU where there is one. Raises SettingsError."""
    import torch

    from anchormoe.training.distributed import own_device

    if wanted == "auto":
        return own_device("cuda") if torch.cuda.is_available() else "cpu"
    if wanted != "cpu" and not _is_cuda(wanted):
        raise SettingsError(f"--device {wanted}: must be auto, cpu, cuda or cuda:N")
    if wanted != "cpu" and not torch.cuda.is_available():
        raise SettingsError(f"--device {wanted}: there is no CUDA device here")
    return own_device(wanted)


def _is_cuda(wanted: str) -> bool:
    kind, found, number = wanted.partition(":")
    return kind == "cuda" and (not found or number.isdecimal())
