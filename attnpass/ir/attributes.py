"""Attributes of ops, read and set."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir


def index_array(attribute: ir.Attribute) -> list[list[int]]:
    """A reassociation attribute as lists of ints."""
    return [
        [ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)]
        for group in ir.ArrayAttr(attribute)
    ]


def known_attribute(op: ir.Operation, name: str) -> Any:
    """An attribute of `op`; None where it has none of that name, or one that the bindings cannot
    hand out: a constant of complex numbers."""
    try:
        return op.attributes.get(name)
    except TypeError:
        return None


def copied_attributes(op: ir.Operation, *without: str) -> dict[str, ir.Attribute]:
    """The attributes of `op` but for those named."""
    attributes: Any = op.attributes
    return {name: attributes[name] for name in attributes if name not in without}


def set_attribute(op: ir.Operation, name: str, text: str) -> None:
    """Sets an attribute of `op` from its text."""
    op.attributes[name] = ir.Attribute.parse(text, op.context)


def remove_attributes(op: ir.Operation, *names: str) -> None:
    for name in names:
        del op.attributes[name]
