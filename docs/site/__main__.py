"""`python -m docs.site [FOLDER]`: the site in FOLDER/site, strict: a link that leads nowhere fails the build."""

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from docs.site.assembly import Assembly
from docs.site.check import problems

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> list[str]:
    """What is wrong, one line each; Sphinx prints its own complaints."""
    pages, site = folder / "pages", folder / "site"
    for old in (pages, site):
        shutil.rmtree(old, ignore_errors=True)
    assembly = Assembly(ROOT, pages)
    assembly.write_repository()
    assembly.write_reference()
    options = ["--quiet", "--fail-on-warning", "--fresh-env", "--doctree-dir", str(folder / "doctrees")]
    if sphinx([*options, "--conf-dir", str(Path(__file__).parent), str(pages), str(site)]):
        return [*assembly.problems, "Sphinx found problems, printed above"]
    return [*assembly.problems, *problems(site.resolve())]


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    found = build(folder)
    print(*found or [f"the documentation is in {folder / 'site' / 'index.html'}"], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
