"""What stands behind a door: our own classes, and those of other packages by entry point.

A door is an entry-point group: `attnpass.passes`, `attnpass.rules`, `attnpass.machines` or
`attnpass.kernels`. An entry is a name and `module:Class`; the class is imported when it is
asked for. Ours are rows of a table beside the class that they extend.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import PluginError

T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """A class by its name at a door: `path` is `module:Class`, `distribution` the package that
    brings it, '' for our own."""

    group: str
    name: str
    path: str
    distribution: str = ""

    @property
    def is_ours(self) -> bool:
        return not self.distribution

    def __str__(self) -> str:
        return f"'{self.name}' ({self.group}) of {self.distribution or 'attnpass'}"

    def load(self, base: type[T]) -> type[T]:
        """The class; PluginError where it cannot be imported or extends no `base`."""
        found = self._import()
        if not (isinstance(found, type) and issubclass(found, base)):
            raise PluginError(f"{self}: {self.path} is no class that extends {_name(base)}")
        return found

    def make(self, base: type[T]) -> T:
        """An object of the class, which takes no arguments; PluginError as for `load`."""
        cls = self.load(base)
        try:
            return cls()
        except Exception as error:
            raise PluginError(f"{self}: {self.path} cannot be made: {_words(error)}") from error

    def _import(self) -> Any:
        module, _, attribute = self.path.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as error:
            if self.is_ours:
                raise
            raise PluginError(f"{self}: {self.path} cannot be imported: {_words(error)}") from error


def entries(group: str, ours: Mapping[str, str], *older: str) -> dict[str, Plugin]:
    """What stands behind the door `group`, by name: ours, and what installed packages have
    registered there, or under one of its `older` names. PluginError for a name taken twice."""
    found = {name: Plugin(group, name, path) for name, path in ours.items()}
    for entry in sorted(
        (each for door in (group, *older) for each in installed().get(door, ())),
        key=lambda entry: (entry.name, entry.distribution),
    ):
        other = found.setdefault(entry.name, entry)
        if (other.path, other.distribution) != (entry.path, entry.distribution):
            raise PluginError(f"{entry}: the name is taken by {other.distribution or 'attnpass'}")
    return found


@functools.cache
def installed() -> dict[str, list[Plugin]]:
    """What installed packages have registered, by group. Read once: that reads the metadata of
    all of them."""
    from importlib.metadata import entry_points

    found = entry_points()
    return {
        group: [
            Plugin(group, one.name, one.value, one.dist.name if one.dist else "an unknown package")
            for one in found.select(group=group)
        ]
        for group in found.groups
        if group.startswith("attnpass.")
    }


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
