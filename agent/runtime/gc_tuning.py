"""Python's garbage collector, told that a stream of records is not garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 50_000
"""Net new objects before the collector looks. A polled batch has thousands, all freed again by counting references."""


@contextmanager
def gc_tuning() -> Iterator[None]:
    """What is loaded by now (torch alone has hundreds of thousands of objects) is no longer looked through.

    By default the collector runs every 700 new objects: it took more time than fetching the records.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
