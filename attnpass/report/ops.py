"""Which op a record is about, in words that outlive the op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iree.compiler import ir

_KERNELS = ("flow.executable", "hal.executable")
_DISPATCHES = ("flow.dispatch", "stream.async.dispatch", "stream.cmd.dispatch")


@dataclass(frozen=True)
class Place:
    """Where an op stands in the input: `file:line:col`, which of its function's ops there
    (counted from 1), and the names that the input has for it (a module path), joined by '/'."""

    location: str
    number: int = 1
    path: str = ""

    def __str__(self) -> str:
        return located(self.location, self.number)


@dataclass(frozen=True)
class Op:
    """What a record is about: an op of the input, a kernel of IREE's, an argument, or (MODULE)
    none of them.

    `function` is the one that it stands in, or the kernel's own name. Of equal ops IREE keeps
    one: `places` holds those of all of them, first that of the one kept.
    """

    kind: str
    function: str = ""
    places: tuple[Place, ...] = ()

    @property
    def location(self) -> str:
        """`file:line:col` of the first place, or ''."""
        return self.places[0].location if self.places else ""

    def __str__(self) -> str:
        named = self.kind in ("kernel", "function")
        name = f"{self.kind} {self.function}" if named else self.kind
        return f"{name} at {self.places[0]}" if self.places else name


# What a record is about that is about no op.
MODULE = Op("module")


def op_from_dict(data: dict[str, Any]) -> Op:
    """The op that `dataclasses.asdict` made `data` from."""
    return Op(**{**data, "places": tuple(Place(**place) for place in data["places"])})


def located(location: str, number: int) -> str:
    """A place for a reader: its location, and its number if above 1."""
    return f"{location} (number {number} there)" if number > 1 else location


class Dispatches:
    """Where the dispatches of each kernel of a module stand, read once."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[ir.Location]] | None = None

    def of(self, module: ir.Operation, kernel: tuple[str, str]) -> list[ir.Location]:
        """The locations of those that start a kernel, by the names of its executable and its
        function."""
        if self._places is None:
            self._places = _dispatches_in(module)
        return self._places.get(kernel, [])


def op_of(op: ir.Operation, kind: str = "", dispatches: Dispatches | None = None) -> Op:
    """Names an op, by `kind` if not by its name without the dialect; a function is a kernel. Who
    asks for many ops of a module hands on its `dispatches`, as long as these stay."""
    from ..ir import function_name

    if not kind:
        kind = "kernel" if op.name == "func.func" else op.name.rpartition(".")[2]
    return Op(kind, function_name(op), _places_of(op, dispatches or Dispatches()))


def _places_of(op: ir.Operation, dispatches: Dispatches) -> tuple[Place, ...]:
    """Where an op stands and, in a kernel, where the ops stood whose dispatches share it."""
    own = _place_of(op.location)
    sites = [_place_of(location) for location in _dispatched_at(op, dispatches)]
    # Where a kernel is named after another op than this one, its dispatches are, too.
    return tuple(dict.fromkeys([own, *sites])) if own in sites else (own,)


def _place_of(location: ir.Location) -> Place:
    from ..ir import location_text, number_at, path_text

    return Place(location_text(location), number_at(location), path_text(location))


def _dispatched_at(op: ir.Operation, dispatches: Dispatches) -> list[ir.Location]:
    """The locations of the dispatches of the kernel that an op is in, or is."""
    from ..ir import symbol_name

    names: list[str] = []
    executable, parent = None, op
    while parent is not None and parent.parent is not None:
        if "sym_name" in parent.attributes:
            names.append(symbol_name(parent))
        executable = parent if parent.name in _KERNELS else executable
        parent = parent.parent.operation
    if executable is None or parent is None:
        return []
    return dispatches.of(parent, (symbol_name(executable), names[0]))


def _dispatches_in(module: ir.Operation) -> dict[tuple[str, str], list[ir.Location]]:
    """The locations of a module's dispatches, by the names of the executable and the function that
    they start."""
    from ..ir import collect

    found: dict[tuple[str, str], list[ir.Location]] = {}
    for block in module.regions[0]:
        for function in block:
            if function.operation.name not in _KERNELS:
                for one in collect(function.operation, lambda one: one.name in _DISPATCHES):
                    for kernel in _started(one):
                        found.setdefault(kernel, []).append(one.location)
    return found


def _started(dispatch: ir.Operation) -> set[tuple[str, str]]:
    """The kernels that a dispatch may start, by the names of their executable and function."""
    from iree.compiler import ir

    entries = [ir.SymbolRefAttr(one).value for one in dispatch.attributes["entry_points"]]
    return {(names[0], names[-1]) for names in entries}
