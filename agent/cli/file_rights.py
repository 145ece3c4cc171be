"""Who may read what the commands write."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NOT_FOR_OTHERS = 0o027


@contextmanager
def keep_others_out() -> Iterator[None]:
    """Events, recordings, reports and bundles may hold patients' data: files become 0640, directories 0750.

    One place for all of them, plots and reports of libraries included. A stricter umask stays as it is.
    """
    before = os.umask(_NOT_FOR_OTHERS)
    os.umask(before | _NOT_FOR_OTHERS)
    try:
        yield
    finally:
        os.umask(before)
