"""The Python API as pages for autodoc: what `__all__` of the public modules names, wherever it is defined.

reStructuredText, because that is what autodoc writes.
"""

from collections.abc import Iterator
from importlib import import_module
from inspect import isroutine
from typing import Any, get_args

from docs.site.sources import Field, read_fields

PUBLIC = ("anchormoe", "agent.client", "agent.contracts")
"""What others may import. The modules behind them may move: their names never appear on a page."""


def api_pages() -> dict[str, str]:
    """reStructuredText by name: one page per public module, and `index`."""
    modules = "\n".join(f"   {module}" for module in PUBLIC)
    intro = "What may be imported; everything else may move.\n\n"
    index = _title("Python API") + intro + f".. toctree::\n\n{modules}\n"
    return {"index": index} | {module: _page(module) for module in PUBLIC}


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Module, name and what it is. What two modules offer is shown where it is offered first."""
    seen: set[int] = set()
    for module in map(import_module, PUBLIC):
        for name in module.__all__:
            thing = getattr(module, name)
            if id(thing) not in seen:
                seen.add(id(thing))
                yield module.__name__, name, thing


def _page(module: str) -> str:
    own = [(name, thing) for home, name, thing in public_names() if home == module]
    entries = [_entry(f"{module}.{name}", thing) for name, thing in sorted(own, key=_rank)]
    return _title(module) + f".. automodule:: {module}\n   :no-members:\n\n" + "\n".join(entries)


def _rank(named: tuple[str, Any]) -> tuple[int, str]:
    """Functions first, then classes, then models of what is published, then data; each by name."""
    name, thing = named
    if isinstance(thing, type):
        return 1 + hasattr(thing, "model_fields"), name
    return (0 if isroutine(thing) else 3), name


def _entry(path: str, thing: Any) -> str:
    if isinstance(thing, type):
        return _class(path, thing)
    if isroutine(thing):
        return f".. autofunction:: {path}\n"
    kinds = " | ".join(getattr(kind, "__name__", str(kind)) for kind in get_args(thing))
    return f".. autodata:: {path}\n   :no-value:\n" + (f"\n   {kinds}\n" if kinds else "")


def _class(path: str, thing: type) -> str:
    fields = read_fields(thing)
    hidden = ", ".join(["model_config", *(field.name for field in fields)])
    options = ["   :members:", "   :undoc-members:", f"   :exclude-members: {hidden}"]
    return "\n".join([f".. autoclass:: {path}", *options, "", *map(_attribute, fields)])


def _attribute(field: Field) -> str:
    lines = [f".. py:attribute:: {field.name}", "   :no-contents-entry:", f"   :type: {field.annotation}"]
    lines += [f"   :value: {field.default}"] * bool(field.default)
    return "\n".join(f"   {line}" for line in [*lines, "", f"   {field.meaning}", ""])


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n\n"
