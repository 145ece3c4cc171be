"""Where compiled code is kept between starts: numba's cache, also where it can only be read.

numba uses a cache only where it may write. A container with a read-only file system, or an installation by another
user, would then compile for ten seconds at every start beside a cache that has it all. There is no fallback to a
directory for everybody such as /tmp: what is loaded from a cache is executed.
"""

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core import caching

log = logging.getLogger(__name__)


class _Readable:
    """A locator of numba for a directory that exists, whether or not it can be written."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        if cls is ReadableProvided and not caching.config.CACHE_DIR:
            return None
        locator: Any = cls(py_func, py_file)  # type: ignore[call-arg]
        return locator if os.path.isdir(locator.get_cache_path()) else None


class ReadableProvided(_Readable, caching.UserProvidedCacheLocator):  # type: ignore[misc]
    """Below NUMBA_CACHE_DIR."""


class ReadableInTree(_Readable, caching.InTreeCacheLocator):  # type: ignore[misc]
    """In the package's own __pycache__."""


class _Located(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (*caching.CompileResultCacheImpl._locator_classes, ReadableProvided, ReadableInTree)


class DiskCache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of a function. What cannot be stored costs the next start its time, not this one its model."""

    _impl_class = _Located

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            tell_once(f"compiled code cannot be stored in {self.cache_path} ({error.strerror})")


def use_disk_cache(dispatcher: Any, function: Callable[..., Any]) -> None:
    """The function's machine code is then read from disk, and stored there where that is possible."""
    try:
        dispatcher._cache = DiskCache(function)
    except RuntimeError:  # numba found no place at all
        tell_once("there is no directory to store compiled code in")


@cache
def tell_once(problem: str) -> None:
    log.warning("%s: models are compiled again at every start, for about ten seconds; set NUMBA_CACHE_DIR to a "
                "directory that only this user can write", problem)  # fmt: skip
