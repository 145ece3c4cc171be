"""What a long-running process gives back: pages of the compiler that nobody needs any more, freed memory of the heap.

Measured on an agent with one bundle and 1,000 assets (`python -m tests.bench.start --only memory`): 81 MB were pages of
LLVM's library, read once to load compiled models, and about 40 MB free space between arrays on the heap.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_COMPILER = "libllvmlite"
_MADV_DONTNEED = 4
_M_ARENA_MAX, _ARENAS = -8, 2


def limit_heap() -> None:
    """Two heaps instead of one per thread: what a thread frees, another can use. Call it before other threads start.

    That large arrays leave the process as soon as they are freed was tried, too, and not kept: it saves no more memory,
    and getting their pages again costs a third of the processor time of an explained window. Does nothing without
    glibc, nor where the environment says how memory is to be had (MALLOC_ARENA_MAX and the like).
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tune is not None:
        tune(_M_ARENA_MAX, _ARENAS)


def release_compiler() -> None:
    """Tell the kernel that the pages of the compiler's library are not needed: reading one again costs a page fault.

    Only pages that are as they are in the file; those that were written, such as addresses, stay.
    """
    try:
        mapped = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, size in unwritten_pages(mapped, _COMPILER):
        advise(start, size, _MADV_DONTNEED)


def unwritten_pages(smaps: Iterable[str], library: str) -> Iterator[tuple[int, int]]:
    """Address and size of the mappings of a library that cannot be written and hold nothing of this process. Pure."""
    place: tuple[int, int] | None = None
    for line in smaps:
        name, *fields = line.split()
        if not name.endswith(":"):
            start, end = (int(address, 16) for address in name.split("-"))
            place = (start, end - start) if library in line and "w" not in fields[0] else None
        elif name == "Anonymous:" and fields[0] == "0" and place is not None:
            yield place
