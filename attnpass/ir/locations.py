"""Locations of ops: shown to a reader, and numbered where ops share one."""

from __future__ import annotations

from iree.compiler import ir

# What locations of ops that share a place in a file are named by, with a number each.
_NUMBER = "attnpass"


def location_text(location: ir.Location) -> str:
    """`file:line:col` of the first file location inside `location`, else 'unknown'."""
    if isinstance(location, ir.FileLineColLoc):
        return f"{location.filename}:{location.start_line}:{location.start_col}"
    if isinstance(location, ir.NameLoc):
        return location_text(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return location_text(location.callee)
    if isinstance(location, ir.FusedLoc):
        texts = (location_text(inner) for inner in location.locations)
        return next((text for text in texts if text != "unknown"), "unknown")
    return "unknown"


def path_text(location: ir.Location) -> str:
    """The names that the input gives a place, outermost first, joined by '/': the module path
    that JAX and ONNX write there; '' where it has none."""
    if isinstance(location, ir.NameLoc):
        own = [] if _is_numbered(location) else [location.name_str]
        return "/".join([*own, *filter(None, [path_text(location.child_loc)])])
    if isinstance(location, ir.CallSiteLoc):
        return path_text(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(path_text, location.locations)), "")
    return ""


def number_of(op: ir.Operation) -> int:
    """The number that `set_number` gave `op`, else 1."""
    return number_at(op.location)


def number_at(location: ir.Location) -> int:
    """The number of an op with this location."""
    if isinstance(location, ir.FusedLoc):
        numbered = (inner for inner in location.locations if _is_numbered(inner))
        location = next(numbered, location)
    return int(location.name_str.split()[1]) if _is_numbered(location) else 1


def set_number(op: ir.Operation, number: int) -> None:
    """Names the location of `op` by a number; IREE hands locations on to what it makes of ops."""
    name = f"{_NUMBER} {number}"
    op.location = ir.Location.name(name, op.location, context=op.context)


def _is_numbered(location: ir.Location) -> bool:
    return isinstance(location, ir.NameLoc) and location.name_str.startswith(f"{_NUMBER} ")
