"""Fetches what the tests run beside Python, before any test's time-out counts: `python -m tests.support.programs`.

A program that cannot be had is only named here: the tests that need it fail and say how to get it.
"""

import sys
from collections.abc import Callable

from tests.support.operations_tools import helm, promtool
from tests.support.services.chromium import find_chromium
from tests.support.services.java import find_java
from tests.support.services.java_archive import archive_options
from tests.support.services.redis_binaries import find_binary
from tests.support.services.requirements import ServiceUnavailable
from tests.support.services.schema_registry import apicurio

PROGRAMS: dict[str, Callable[[], object]] = {
    "helm": helm,
    "promtool": promtool,
    "kafka": lambda: archive_options(find_java()),
    "schema registry": apicurio,
    "chromium": find_chromium,
    "redis with TLS": lambda: find_binary("redis", tls=True),
}


def fetch_programs(programs: dict[str, Callable[[], object]]) -> list[str]:
    """One after the other; returns what cannot be had, and why."""
    missing = []
    for name, find in programs.items():
        try:
            find()
        except ServiceUnavailable as error:
            missing.append(f"{name}: {error}")
    return missing


if __name__ == "__main__":
    for line in fetch_programs(PROGRAMS):
        print(line, file=sys.stderr)
