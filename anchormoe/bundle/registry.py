"""Which class loads which part of a bundle. A new kind of source is one line here."""

from collections.abc import Callable, Mapping

from anchormoe.evidence import Source
from anchormoe.simd.backend import require_torch

SourceTypes = Mapping[str, Callable[[], type[Source]]]


def _kernel() -> type[Source]:
    from anchormoe.kernels.source import KernelSource

    return KernelSource


def _experts() -> type[Source]:
    from anchormoe.experts.source import Committee

    return Committee


def _paper() -> type[Source]:
    require_torch("a bundle of the recipe `paper`")
    from anchormoe.paper.source import PaperSource

    return PaperSource


# Functions, because each source has heavy imports of its own, and a bundle needs one or two of them.
SOURCE_TYPES: SourceTypes = {"kernel": _kernel, "experts": _experts, "paper": _paper}


def move_source(source: Source, device: str) -> Source:
    """The source on a device; unchanged if it has no `to`."""
    move = getattr(source, "to", None)
    return source if move is None else move(device)
