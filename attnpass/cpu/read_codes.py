"""attn-read-codes: CPUs: products widen quantised weights in registers, from codes as they lie.

IREE 3.13 puts what widens weights (codes times scales) into the kernel of a product of one row, and
for more rows writes all of them to memory in each call: 16 MB for 4096 x 1024 codes. Here one
dispatch has what widens them, the product, and what is elementwise behind it;
`attn-vectorize-products` makes each vector of weights in registers, for many rows once a tile of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..ir import (
    Builder,
    Refusal,
    collect,
    defining_op,
    element_type,
    enclosing,
    erase_dead,
    has_one_use,
    is_used,
    sizes_of,
    users,
)
from ..ir.bodies import needed_ops, read_elementwise
from ..ir.contractions import is_contraction
from ..ir.regions import copy_steps
from ..machines.cpu.machine import Cpu
from ..passes import PassContext, TargetPass
from .computed_lines import sources_of
from .product_loops import RowProduct, misfit, read_row_product, read_tall_product
from .vectorize_products import tiles_of
from .widened_weights import no_index

_REGION = "flow.dispatch.region"


@dataclass(frozen=True)
class ReadCodes(TargetPass):
    """Makes one dispatch of a product on llvm-cpu, of the elementwise ops that make its weights of
    narrower numbers (codes, their scales and zero points) and of those behind it, where loops of
    ours multiply it: 64 rows by 4096 x 1024 codes and back take a thread of a Zen 3 16 ms for 42.
    """

    name = "attn-read-codes"
    summary = "CPUs: products widen quantised weights in registers"
    phase = "global-optimization"
    backends = ("llvm-cpu",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if not isinstance(target, Cpu):
            return False
        changed = False
        for op in collect(module, is_contraction, bodies=False):
            product = read_row_product(op) or read_tall_product(op)
            if product is None or product.codes is None:
                continue
            why = _refusal(product, target)
            if why:
                context.report.record(op, "no-loops", why, kind="contraction")
                continue
            why = "its weights are widened in registers, from codes as they lie"
            context.report.record(op, "fitted", why, kind="contraction")
            erase_dead(_join(product))
            changed = True
        return changed


def _refusal(product: RowProduct, machine: Cpu) -> Refusal | None:
    """Why a product gets no loops, or None."""
    if any(op.name == _REGION for op in enclosing(product.op)):
        return Refusal("it stands in a dispatch region already")
    if product.batch:
        return Refusal("it is a product with several matrices")
    sources = sources_of(product.op.operands[product.weights]) or []
    if len({read.argument for read in sources}) < len(sources):
        return Refusal("what widens its weights reads a tensor in two orders, or twice")
    tiles = tiles_of(product, machine)
    return tiles if isinstance(tiles, Refusal) else misfit(product)


def _join(product: RowProduct) -> list[ir.Operation]:
    """Puts a product into a dispatch with what widens its weights and what is elementwise behind
    it; returns the ops that have no use then."""
    weights, behind = product.op.operands[product.weights], _elementwise_behind(product.op)
    last = behind[-1] if behind else product.op
    build, (old,) = Builder(last), last.results
    # The sizes of what it writes to: those of its result would be its own.
    sizes = sizes_of(last.operands[len(last.operands) - 1])

    def body(inner: Builder) -> list[ir.Value]:
        # Rows, which may be the same tensor, are read from memory.
        factors = [*product.op.operands]
        factors[product.weights] = _widened(inner, weights)
        made = {product.op.results[0]: inner.copy(product.op, factors).results[0]}
        for op in behind:
            copy = inner.copy(op, [made.get(value, value) for value in op.operands])
            made[op.results[0]] = copy.results[0]
        return [made[old]]

    (value,) = build.dispatch_region([(sizes, element_type(old))], body)
    old.replace_all_uses_with(value)
    return [*reversed(behind), product.op]


def _widened(build: Builder, weights: ir.Value) -> ir.Value:
    """Weights made again by one op: IREE would read a step that others need, too, from memory."""
    sources = sources_of(weights) or []

    def body(inner: Builder, scalars: Sequence[ir.Value]) -> ir.Value:
        read = [source.argument for source in sources]
        return _scalar(inner, weights, dict(zip(read, scalars, strict=False)))

    element = element_type(weights)
    reads = [(read.operand, read.dims) for read in sources]
    return build.computed(sizes_of(weights), element, body, *reads)


def _scalar(build: Builder, value: ir.Value, given: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """An element of a value that elementwise ops make, of those that are given."""
    op = defining_op(value)
    made = read_elementwise(op)
    assert op is not None and made is not None, "sources_of has read it"
    names = dict(given)
    for read in made.reads:
        if read.argument not in names and is_used(read.argument):
            names[read.argument] = _scalar(build, read.operand, given)
    return copy_steps(needed_ops(op, [made.scalar]), build, names, no_index)[made.scalar]


def _elementwise_behind(op: ir.Operation) -> list[ir.Operation]:
    """Ops of which each is the only reader of the one before, an element for each of its own."""
    found: list[ir.Operation] = []
    while has_one_use(op.results[0]):
        (reader,) = users(op.results[0])
        made = read_elementwise(reader)
        # A reader in a loop would have the product computed in each round.
        if made is None or len(reader.results) != 1 or reader.block != op.block:
            break
        whole = tuple(range(len(sizes_of(reader.results[0]))))
        reads = [read for read in made.reads if read.operand == op.results[0]]
        if len(reads) != 1 or reads[0].dims != whole or reads[0].argument == _written(reader):
            break
        found.append(reader)
        op = reader
    return found


def _written(op: ir.Operation) -> ir.Value:
    """What the body of an op gets of the tensor that it writes to."""
    arguments = op.regions[0].blocks[0].arguments
    return arguments[len(arguments) - 1]
