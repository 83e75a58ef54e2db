"""Libraries are imported without work that nobody here needs: what does it is replaced as soon as its module is there.

Only for work that shows nowhere but in the time an import takes. A library that has no such function is imported as it is.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType


@dataclass(eq=False)
class _Finder(MetaPathFinder):
    """Finds modules where they are, with a loader that makes the changes."""

    changes: dict[str, list[tuple[Sequence[str], Callable[[Any], Any]]]] = field(default_factory=dict)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self.changes else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(fullname, spec.loader.path, self.changes[fullname])
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, changes: Sequence[tuple[Sequence[str], Callable[[Any], Any]]]) -> None:
        super().__init__(name, path)
        self._changes = changes

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for place, change in self._changes:
            _replace(module, place, change)


def _replace(module: ModuleType, place: Sequence[str], change: Callable[[Any], Any]) -> None:
    *owners, name = place
    owner: Any = module
    for step in owners:
        owner = getattr(owner, step, None)
    if (found := getattr(owner, name, None)) is not None:
        setattr(owner, name, change(found))


def replace_on_import(module: str, place: str, change: Callable[[Any], Any]) -> None:
    """From the import of ``module`` on, what stands at ``place`` in it (a name, or names with dots) is what ``change`` makes of it.

    Without effect for a module that is there already.
    """
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        sys.meta_path.insert(0, finder := _Finder())
    finder.changes.setdefault(module, []).append((place.split("."), change))


def nothing(_: Any) -> Callable[..., None]:
    """A change: a function that does nothing."""
    return lambda *_arguments, **_named: None
