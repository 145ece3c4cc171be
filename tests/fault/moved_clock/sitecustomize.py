"""Moves the wall clock of a Python process, while it runs, by the seconds that a file says.

Python imports this module by itself from a directory on PYTHONPATH. Monotonic clocks are not affected, as when somebody
sets a machine's clock.
"""

import os
import time

VARIABLE = "ANCHORMOE_TEST_CLOCK"
_LOOK_EVERY_S = 0.1


class _MovedClock:
    def __init__(self, file: str) -> None:
        self._file, self._looked_s, self._offset_s = file, 0.0, 0.0
        self._time, self._time_ns, self._monotonic = time.time, time.time_ns, time.monotonic

    def time(self) -> float:
        return self._time() + self._offset()

    def time_ns(self) -> int:
        return self._time_ns() + int(self._offset() * 1e9)

    def _offset(self) -> float:
        if self._monotonic() - self._looked_s > _LOOK_EVERY_S:
            self._looked_s = self._monotonic()
            try:
                with open(self._file) as file:
                    self._offset_s = float(file.read() or 0)
            except (OSError, ValueError):
                pass  # being written
        return self._offset_s


def install() -> None:
    """Does nothing without the variable."""
    if file := os.environ.get(VARIABLE):
        clock = _MovedClock(file)
        time.time = clock.time
        time.time_ns = clock.time_ns


install()
