"""Gradio without what its import does for people who write Gradio programs: half of its time.

For every component class it renders a stub file for editors into its own package, and documentation for each event. Nothing of that is
used when a page runs. The functions that do it are replaced as soon as their modules are there; a Gradio that has no such functions
is imported as it is.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

UNUSED = {"gradio.component_meta": ("create_or_modify_pyi",), "gradio.events": ("EventListener", "set_doc")}
"""By module, the path to what is replaced by a function that does nothing."""


def trim() -> None:
    """Import Gradio like this from now on; too late, and without effect, when it is there already."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the modules of UNUSED where they are, with a loader of ours."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in UNUSED else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        *owners, name = UNUSED[module.__name__]
        owner: object = module
        for step in owners:
            owner = getattr(owner, step, None)
        if hasattr(owner, name):
            setattr(owner, name, _nothing)


def _nothing(*_: object, **__: object) -> None:
    """What isn't needed."""
