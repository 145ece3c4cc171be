"""Every vendored file is the one its manifest names, byte for byte, and no file is there that no manifest names."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "agent/page/static/vendor", ROOT / "tests/browser/vendor")
SHIPPED_LICENCES = {"MIT", "Apache-2.0"}


def packages(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "vendor.json").read_text())["packages"]
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=("page", "tests"))
def test_every_vendored_file_has_the_hash_of_its_manifest(folder: Path) -> None:
    for package in packages(folder):
        for entry in package["files"]:
            digest = hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest()
            assert digest == entry["sha256"], entry["file"]


@pytest.mark.parametrize("folder", FOLDERS, ids=("page", "tests"))
def test_no_vendored_file_is_without_a_package_and_a_licence(folder: Path) -> None:
    named = {"vendor.json"}
    for package in packages(folder):
        assert package["integrity"].startswith("sha512-")
        assert package["licence_files"]
        named |= {entry["file"] for entry in package["files"]} | set(package["licence_files"])
    assert named == {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_is_shipped_has_a_permissive_licence() -> None:
    assert {package["licence"] for package in packages(FOLDERS[0])} <= SHIPPED_LICENCES
