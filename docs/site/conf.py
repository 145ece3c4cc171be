"""Sphinx's settings for the documentation site; `python -m docs.site` prepares the pages and calls Sphinx with them."""

from importlib.metadata import version as installed_version
from typing import Any

from docs.site.sources import on_docstring, on_missing_reference, on_signature

project = "anchormoe-agent"
version = release = installed_version("anchormoe-agent")
html_title = f"{project} {version}"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 6  # links to headings as on a code host: #on-your-kafka
myst_disable_syntax = ["html_inline", "html_block"]  # <namespace> in a help text is not HTML
highlight_language = "text"  # indented blocks are terminal sessions more often than Python
smartquotes = False  # they turn --option into –option
default_role = "code"  # docstrings write `name`, as Markdown does

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_domain_indices = False
html_show_copyright = False
html_permalinks_icon = "#"


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", on_signature)
    app.connect("autodoc-process-docstring", on_docstring)
    app.connect("missing-reference", on_missing_reference)
