"""attn-tile-products: rows of a product that fill no kernel tile as whole ones.

IREE 3.13 has tensor-core kernels for known sizes only: where the rows of a projection are known at
run time alone, it multiplies without matrix instructions. Where their number is known, but odd, its
kernels are half as fast as those of attn-configure. The rows, those of all sequences where they lie
one behind the other, become (tiles, `TILE`): the factor that has them is copied into whole tiles,
and what of the result belongs to no row is cut off. Beside rows of an unknown number, and in f32,
whose tiles of threads divide known sizes, too, an odd number of columns (a vocabulary) is filled
up. The copies leave what they do not fill as it is: each element of a product depends on its own
row and column only. But for a depth in f32 that no tile divides, which is filled up with zeros
first: IREE multiplies one row and column of it after the other. Elementwise ops that take nothing
but the product and values without rows (a rounding, a bias) move in front of the cut, where IREE
fuses them into the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.facts import find_ops
from ..ir import (
    Builder,
    Size,
    body_of,
    collect,
    copy_generic,
    copy_product,
    defining_op,
    element_type,
    element_type_name,
    erase_dead,
    filled_with,
    index_ops,
    is_ranked_tensor,
    is_used,
    iterator_kinds,
    maps,
    sizes_of,
    users,
)
from ..ir import product as total
from ..ir.contractions import NAMED, ContractionFacts, read_contraction
from ..ir.padding import is_padded_in_place, padded_to
from ..kernels import kernels_in
from ..layout.rules import Refusal
from ..layout.rules.loop_nest import loops_of, peel_broadcasts
from ..machines.nvidia.f32_products import LEAST_DEPTH, LEAST_SIDE, LOW, are_few
from ..passes import PassContext, TargetPass

TILE = 128
# A known number of rows that this divides has a kernel; below `TILE` copies cost what they gain.
_WHOLE = 64
# What the depth and the other matrix's rows or columns must divide by for a kernel of 16 bits.
_DEPTH, _COLUMNS = 32, 64
# Below this depth copies cost what they gain; from these on it is filled up to larger tiles.
_LEAST_FILLED, _FILLS = 16, ((256, 32), (64, 16), (0, LEAST_DEPTH))

Read = tuple[ir.Value, maps.Positions]


@dataclass(frozen=True)
class TiledProduct:
    """A contraction of two `reads`, summed over loop `k`; `result` are the loops of its dims, and
    `rows` those, one behind the other in each operand, that become tiles together; `columns` is the
    other factor's last loop. `sizes` are by loop."""

    op: ir.Operation
    reads: tuple[Read, Read]
    result: tuple[int, ...]
    sizes: tuple[Size, ...]
    rows: tuple[int, ...]
    columns: int
    k: int

    @property
    def units(self) -> tuple[int, ...]:
        """Loops of one step: IREE drops them from the ops behind a contraction, but not from it,
        and then does not fuse the two."""
        return tuple(loop for loop in self.result if self.sizes[loop] == 1)

    @property
    def length(self) -> Size:
        """The number of rows."""
        return total([self.sizes[loop] for loop in self.rows])

    def filled(self, loop: int) -> Size:
        """The steps of a loop that is no row's, with those that fill the columns up."""
        size = self.sizes[loop]
        if loop != self.columns or not isinstance(size, int):
            return size
        return -(-size // _COLUMNS) * _COLUMNS

    @property
    def new_loops(self) -> list[int | str]:
        """Loops of the result: old ones, and a tile and a place in it for the rows."""
        return self._replaced(self.result)

    def positions(self, dims: maps.Positions) -> tuple[int, ...]:
        """The map, over the new loops, of what had this one."""
        loops = [*self.new_loops, self.k]
        return tuple(loops.index(part) for part in self._replaced(dims))

    def _replaced(self, dims: maps.Positions) -> list[int | str]:
        found: list[int | str] = []
        for dim in dims:
            assert dim is not None
            if dim == self.rows[0]:
                found += ["tile", "place"]
            elif dim not in (*self.units, *self.rows):
                found.append(dim)
        return found


def find(module: ir.Operation) -> Iterator[TiledProduct]:
    """The products of floats under `module` that a kernel with known tiles fits, each described
    when it is its turn: the one before may have been rewritten."""
    for op in collect(module, lambda op: op.name in NAMED):
        product = _describe(op)
        if product is not None:
            yield product


def _describe(op: ir.Operation) -> TiledProduct | None:
    positions, facts = loops_of(op), read_contraction(op)
    if isinstance(positions, Refusal) or facts is None or any(None in dims for dims in positions):
        return None
    kinds = [element_type_name(value) for value in op.operands]
    if kinds[0] not in ("f16", "bf16", "f32") or kinds[1:] != [kinds[0], "f32"]:
        return None
    if filled_with(op.operands[2]) is None:
        return None
    result, sizes = facts.kept, facts.sizes
    reads = peel_broadcasts([(op.operands[i], positions[i]) for i in (0, 1)], result)
    own = [[loop for loop in result if _is_own(loop, side, reads, sizes)] for side in (0, 1)]
    if len(facts.k) != 1 or not all(own):
        return None
    rows = [_joined(own[side], reads[side][1], result, sizes) for side in (0, 1)]
    wide = kinds[0] == "f32"
    tall = next((side for side in (0, 1) if _fills_no_tile(rows[side], sizes, wide)), None)
    if tall is None:
        return None
    length, columns = total([sizes[loop] for loop in rows[tall]]), own[1 - tall][-1]
    step = _COLUMNS if isinstance(length, int) and not wide else 1
    depth = LEAST_DEPTH if wide else _DEPTH
    if not (_divides(depth, sizes[facts.k[0]]) and _divides(step, sizes[columns])):
        return None
    # IREE's kernels are right where the second factor has the result's last dim.
    last = [loop for loop in result if loop in (*own[0], *own[1])][-1]
    if not (wide or is_profitable(length, last in own[tall])):
        return None
    first, second = reads if last in own[1] else reads[::-1]
    return TiledProduct(op, (first, second), result, sizes, rows[tall], columns, facts.k[0])


def is_profitable(rows: Size, innermost: bool) -> bool:
    """Whether whole tiles of so many rows, which may be the result's `innermost` dim, gain more
    than the copies cost: bench/results/product_tiles_h200.json. Innermost ones are a vocabulary,
    whose factor is large, and IREE's kernels fill them up within."""
    return not (isinstance(rows, int) and innermost)


def _joined(
    own: Sequence[int], read: maps.Positions, result: maps.Positions, sizes: Sequence[Size]
) -> tuple[int, ...]:
    """The last of a factor's own loops, and those right in front of it in the factor as in the
    result: sequences whose rows lie one behind the other."""
    orders = [
        [loop for loop in dims if loop is None or sizes[loop] != 1] for dims in (read, result)
    ]
    rows = [own[-1]]
    for loop in reversed(own[:-1]):
        if any(order.index(loop) + 1 != order.index(rows[0]) for order in orders):
            break
        rows.insert(0, loop)
    return tuple(rows)


def _fills_no_tile(rows: Sequence[int], sizes: Sequence[Size], wide: bool) -> bool:
    """Whether the rows are no tiles of a kernel; those of `wide` products, which IREE multiplies
    at a tenth of their speed, not even small ones."""
    length = total([sizes[loop] for loop in rows])
    if not isinstance(length, int) or (length > TILE and length % _WHOLE != 0):
        return True
    return wide and length > LOW and length % LEAST_SIDE != 0


def _is_own(loop: int, side: int, reads: Sequence[Read], sizes: Sequence[Size]) -> bool:
    """Whether a loop of more than one step is of this factor alone."""
    return loop in reads[side][1] and loop not in reads[1 - side][1] and sizes[loop] != 1


def _divides(step: int, size: Size) -> bool:
    return isinstance(size, int) and size % step == 0


def _full_depth(facts: ContractionFacts) -> int:
    """What the depth of an f32 product is filled up to; 0 where it stays."""
    operands = list(facts.op.operands)
    if len(facts.k) != 1 or any(element_type_name(value) != "f32" for value in operands):
        return 0
    depth = facts.sizes[facts.k[0]]
    if not isinstance(depth, int) or depth < _LEAST_FILLED or depth % LEAST_DEPTH == 0:
        return 0
    if any(are_few([facts.sizes[loop] for loop in side]) for side in (facts.m, facts.n)):
        return 0
    if facts.kept[-1] in facts.batch or None in (*facts.left, *facts.right):
        return 0
    step = next(step for least, step in _FILLS if depth >= least)
    return -(-depth // step) * step


def _filled_up(facts: ContractionFacts, depth: int) -> ir.Value:
    """The result of a product whose factors have zeros behind their depth."""
    op, build = facts.op, Builder(facts.op)
    zero = build.constant_number(0, element_type(op.results[0]))
    reads: list[Read] = []
    for value, dims in zip(list(op.operands)[:2], (facts.left, facts.right), strict=True):
        at = dims.index(facts.k[0])
        wanted = [depth if dim == at else size for dim, size in enumerate(sizes_of(value))]
        in_place = is_padded_in_place(value, [at])
        reads.append((padded_to(build, value, wanted, zero, in_place), dims))
    reads.append((op.operands[2], facts.result))
    return copy_product(op, reads, len(facts.sizes), build)


def view_as_tiles(product: TiledProduct) -> ir.Operation:
    """Gives the users of a product, or of what moved in front of its cut, the same values;
    returns the last op that this replaces, which stays behind without use."""
    build = Builder(product.op)
    count = build.size_op("ceildivui", product.length, TILE)
    reads = [(_in_tiles(product, *read, count, build), read[1]) for read in product.reads]
    last = product.op
    value = _contract(product, reads, count, build)
    while (behind := _elementwise_user(product, last)) is not None:
        build = Builder(behind)
        value = _elementwise(product, behind, last.results[0], value, count, build)
        last = behind
    last.results[0].replace_all_uses_with(_cut(product, value, build))
    return last


def _in_tiles(
    product: TiledProduct, value: ir.Value, dims: maps.Positions, count: Size, build: Builder
) -> ir.Value:
    """A value whose dims are loops, with its rows in tiles, its columns filled up, and without
    dims of one."""
    kept = [dim for dim in dims if dim not in product.units]
    sizes = zip(dims, sizes_of(value), strict=True)
    value = build.split_dims(value, [[size] if dim in kept else [] for dim, size in sizes])
    if product.rows[0] in kept:
        at, joined = kept.index(product.rows[0]), len(product.rows)
        value = build.collapse(value, _groups(len(kept), at, joined))
        kept[at : at + joined] = product.rows[:1]
    parts = [
        [count, TILE] if dim == product.rows[0] else [product.filled(dim)]
        for dim in kept
        if dim is not None
    ]
    filled = [build.size_op("muli", count, TILE) if len(part) > 1 else part[0] for part in parts]
    if filled != list(sizes_of(value)):
        value = build.insert_slice(value, build.empty(filled, element_type(value)))
    return build.split_dims(value, parts)


def _cut(product: TiledProduct, value: ir.Value, build: Builder) -> ir.Value:
    """The result with its old dims, without what belongs to no row."""
    loops = product.new_loops
    at = loops.index("tile")
    value = build.collapse(value, _groups(len(loops), at, 2))
    sizes = [
        product.sizes[loop] if isinstance(loop, int) else product.length
        for loop in loops
        if loop != "place"
    ]
    value = build.extract_slice(value, [0] * len(sizes), sizes)
    parts = [[size] for size in sizes]
    parts[at] = [product.sizes[loop] for loop in product.rows]
    value = build.split_dims(value, parts)
    counts = [0 if loop in product.units else 1 for loop in product.result]
    return build.join_dims(value, counts, [product.sizes[loop] for loop in product.result])


def _groups(rank: int, at: int, joined: int) -> list[list[int]]:
    """Dims by what they become where `joined` dims from `at` on become one."""
    behind = [[dim] for dim in range(at + joined, rank)]
    return [*([dim] for dim in range(at)), list(range(at, at + joined)), *behind]


def _new_sizes(product: TiledProduct, count: Size) -> list[Size]:
    tiles: dict[str, Size] = {"tile": count, "place": TILE}
    return [
        tiles[loop] if isinstance(loop, str) else product.filled(loop) for loop in product.new_loops
    ]


def _contract(
    product: TiledProduct, reads: Sequence[Read], count: Size, build: Builder
) -> ir.Value:
    op = product.op
    fill = defining_op(op.operands[2])
    assert fill is not None
    init = build.fill(
        fill.operands[0],
        build.empty(_new_sizes(product, count), element_type(op.results[0])),
    )
    factors = [(value, product.positions(dims)) for value, dims in reads]
    placed = [*factors, (init, product.positions(product.result))]
    return copy_product(op, placed, len(product.new_loops) + 1, build)


def _elementwise_user(product: TiledProduct, made: ir.Operation) -> ir.Operation | None:
    """The one user of the product, or of what came of it, if it is elementwise and reads nothing
    else that has rows."""
    using = users(made.results[0])
    op = using[0] if len(using) == 1 else None
    if op is None or op.name != "linalg.generic" or len(op.results) != 1:
        return None
    if set(iterator_kinds(op)) != {"parallel"}:
        return None
    positions = loops_of(op)
    loops = len(product.result)
    if isinstance(positions, Refusal) or positions[-1] != tuple(range(loops)):
        return None
    arguments = body_of(op).arguments
    if index_ops(op) or is_used(arguments[len(arguments) - 1]):
        return None
    rows = {product.result.index(loop) for loop in product.rows}
    for value, dims in zip(list(op.operands)[:-1], positions, strict=False):
        whole = value == made.results[0] and dims == positions[-1]
        if not whole and ({*dims} & {*rows, None} or value == made.results[0]):
            return None
    return op


def _elementwise(
    product: TiledProduct,
    op: ir.Operation,
    old: ir.Value,
    new: ir.Value,
    count: Size,
    build: Builder,
) -> ir.Value:
    """An op that `_elementwise_user` found, on tiles: `new` stands for `old`."""
    positions = loops_of(op)
    assert not isinstance(positions, Refusal)
    reads: list[Read] = []
    for value, dims in zip(list(op.operands)[:-1], positions, strict=False):
        loops = tuple(product.result[dim] for dim in dims if dim is not None)
        if not is_ranked_tensor(value):
            reads.append((value, ()))
        elif value == old:
            reads.append((new, product.positions(loops)))
        else:
            tiled = _in_tiles(product, value, loops, count, build)
            reads.append((tiled, product.positions(loops)))
    init = build.empty(_new_sizes(product, count), element_type(op.results[0]))
    whole = tuple(range(len(product.new_loops)))
    kinds = ["parallel"] * len(whole)
    return copy_generic(op, [*reads, (init, whole)], kinds, build).results[0]


@dataclass(frozen=True)
class TileProducts(TargetPass):
    """Gives the f32 products of a module, and those in f16 and bf16 of one with attention (its
    projections), tiles of a known size on NVIDIA GPUs where their rows are known at run time alone,
    or fill no tile.

    IREE 3.13 has tensor-core kernels for known sizes only: on an H200 1333 x 4096 x 4096 takes
    152 ms with rows of an unknown number (25 where the weights lie by columns) and 0.4 with a
    known one; in tiles 0.22. The factor with the rows is copied into whole tiles, whose results
    are cut off.
    """

    name = "attn-tile-products"
    summary = "NVIDIA GPUs: rows of a product that fill no kernel tile as whole ones"
    why = "IREE has tensor-core kernels for known sizes that fill their tiles only"
    backends = ("cuda",)

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        if target is None or not self.concerns({target.backend}):
            return False
        # Without attention those of 16 bits are IREE's, with its own tiles.
        wide = not (find_ops(module) or kernels_in(module))
        replaced: list[ir.Operation] = []
        for op in collect(module, lambda op: op.name in NAMED):
            facts = read_contraction(op)
            if facts is not None and (depth := _full_depth(facts)):
                why = f"its depth of {facts.sizes[facts.k[0]]} is filled up to {depth} with zeros"
                context.report.record(op, "fitted", why, kind="contraction", depth=depth)
                op.results[0].replace_all_uses_with(_filled_up(facts, depth))
                replaced.append(op)
        for product in find(module):
            if wide and element_type_name(product.op.operands[0]) != "f32":
                continue
            rows = product.length
            known = f"its {rows} rows are" if isinstance(rows, int) else ""
            why = f"{known or 'the unknown number of its rows is'} viewed as tiles of {TILE}"
            context.report.record(product.op, "fitted", why, kind="contraction", tile=TILE)
            replaced.append(view_as_tiles(product))
        erase_dead(replaced)
        return bool(replaced)
