"""The chain of producers of an operand, before and after what was chosen, for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iree.compiler import ir

from ..analysis.boundary import FUNCTIONS
from ..ir import defining_op, is_ranked_tensor, location_text, product
from ..ir.contractions import is_contraction
from ..ir.views import RESHAPES, view_before
from ..report.entries import Fate, Link
from .choose import Choice, epilogue_products
from .planner import Node, nodes_of
from .sources import find_source

# Longer chains end there.
_MOST_LINKS = 9
_STARTS = (
    "hal.tensor.import",
    "arith.constant",
    "flow.tensor.constant",
    "util.global.load",
    "tensor.empty",
)


def record_chains(choices: Sequence[Choice]) -> None:
    """Gives each choice's record the producers of its operand, before the IR changes."""
    plans = {
        (id(choice.facts), plan.operand): plan.node for choice in choices for plan in choice.plans
    }
    for choice in choices:
        root = plans.get((id(choice.facts), choice.record.operand))
        choice.record.chain = list(_links(choice, root))


def _links(choice: Choice, root: Node | None) -> Iterator[Link]:
    value = choice.facts.value(choice.record.operand)
    nodes = {} if root is None else {node.value: node for node in nodes_of([root])}
    absorber = _absorber(nodes.values())
    source = find_source(choice.facts, choice.record.operand) if choice.reads_source else None
    is_past = source is None
    fuses = source is not None and bool(epilogue_products(source.value))
    for link in _values(value):
        kind = _type_words(link)
        is_past |= source is not None and link == source.value
        if not is_past:
            yield _link(link, kind, "", "goes")
        elif fuses and not _is_reshape(link):
            fuses = False
            yield _link(link, kind, kind, "fuses")
        elif (node := nodes.get(link)) is not None:
            after, fate = _planned(node, absorber)
            yield _link(link, kind, after if fate != "stays" else kind, fate)
        else:
            yield _link(link, kind, kind, "stays")


def _values(value: ir.Value) -> Iterator[ir.Value]:
    """A value and what it is made of in the main, as far as the product, constant or argument
    that it begins at."""
    for _ in range(_MOST_LINKS):
        yield value
        op = defining_op(value)
        if op is None or op.name in _STARTS or is_contraction(op):
            return
        made_of = [x for x in op.operands if is_ranked_tensor(x) and not _is_blank(x)]
        if not made_of:
            return
        value = made_of[0]


def _is_blank(value: ir.Value) -> bool:
    return defining_op(value, "tensor.empty", "linalg.fill") is not None


def _planned(node: Node, absorber: Node | None) -> tuple[str, Fate]:
    """The tensor that a plan makes of a value, and what becomes of the op."""
    if node.alternative is None:
        return "", "stays"
    present = [[size for size, there in parts if there] for parts in node.parts]
    sizes = [product(parts) for parts in present if parts]
    kept = [str(size) if isinstance(size, int) else "?" for size in sizes]
    element = str(ir.RankedTensorType(node.value.type).element_type)
    after = "x".join([*kept, element])
    if not node.creates_op:
        return (after, "changes") if _is_reshape(node.value) else ("", "goes")
    return after, "absorbs" if node is absorber else "changes"


def _is_reshape(value: ir.Value) -> bool:
    return defining_op(value, *RESHAPES) is not None


def _absorber(nodes: Iterable[Node]) -> Node | None:
    """The node of the last producer that computes: the layout change ends there."""
    makers = [one for one in nodes if one.creates_op and not _is_blank(one.value)]
    return makers[-1] if makers else None


def _link(value: ir.Value, before: str, after: str, fate: Fate) -> Link:
    op = defining_op(value)
    location = "" if op is None else location_text(op.location)
    return Link(_name(value, op), location, before, after, fate)


def _name(value: ir.Value, op: ir.Operation | None) -> str:
    """What an op does, in a word or two."""
    if op is None:
        is_entry = value.owner.owner.operation.name in FUNCTIONS
        return "argument" if is_entry else "carried value"
    if is_contraction(op):
        return "product"
    if op.name == "linalg.generic" and view_before(value) is not None:
        return "broadcast"
    short = op.name.rpartition(".")[2]
    return _NAMES.get(op.name, short.replace("_", " "))


_NAMES = {
    "linalg.generic": "elementwise",
    "tensor.collapse_shape": "join dims",
    "tensor.expand_shape": "split dims",
    "tensor.extract_slice": "slice",
    "arith.constant": "constant",
    "hal.tensor.import": "argument",
    "util.global.load": "global",
}


def _type_words(value: ir.Value) -> str:
    kind = ir.RankedTensorType(value.type)
    sizes = ["?" if kind.is_dynamic_dim(i) else str(kind.get_dim_size(i)) for i in range(kind.rank)]
    return "x".join([*sizes, str(kind.element_type)])
