"""A Chromium for the browser tests: the system's, else what apt installs."""

import os
import shutil
from functools import cache
from pathlib import Path

from tests.support.services.places import alone
from tests.support.services.requirements import ServiceUnavailable, can_install_packages, install_packages

VARIABLE = "ANCHORMOE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
HOW_TO_GET_CHROMIUM = (
    f"The tests of the operator page need Chromium: install it (Debian: apt-get install chromium), or name one in "
    f"{VARIABLE}=/path/to/chromium."
)


@cache
def find_chromium() -> Path:
    """Raises ServiceUnavailable with what to install."""
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise ServiceUnavailable(f"{VARIABLE}={named} is not a program. {HOW_TO_GET_CHROMIUM}")
        return Path(named)
    with alone("chromium"):
        found = _installed()
        if found is None and can_install_packages():
            install_packages("chromium", "fonts-dejavu-core")
            found = _installed()
    if found is None:
        raise ServiceUnavailable(HOW_TO_GET_CHROMIUM)
    return found


def _installed() -> Path | None:
    return next((Path(found) for name in NAMES if (found := shutil.which(name))), None)
