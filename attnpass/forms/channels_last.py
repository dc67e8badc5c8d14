"""attn-channels-last: what stands between convolutions that are products keeps channels last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iree.compiler import ir

from ..attention.barrier import BARRIER, compute_barrier
from ..ir import (
    Builder,
    collect,
    concat_dim,
    defining_op,
    element_type,
    is_elementwise,
    is_used,
    iterator_kinds,
    maps,
    next_op,
    ranked_shape,
    replace_operand,
    sizes_of,
    users,
)
from ..ir.attributes import index_array
from ..ir.bodies import body_of, body_ops
from ..ir.contractions import is_contraction
from ..ir.regions import copy_generic
from ..ir.rewrite import erase_dead
from ..ir.views import RESHAPES
from ..passes import Pass, PassContext
from .sampled_images import sample_last, sampled_image

_TRANSPOSE = "linalg.transpose"
_PLAIN = ("arith.", "math.", "linalg.yield")


class ChannelsLast(Pass):
    """Has elementwise ops between convolutions that are products read and write channels last:
    (batch, lines, pixels, channels) where they had (batch, channels, lines, pixels), of two dims of
    pixels or more, of known sizes or not.

        product -> transpose -> elementwise -> transpose -> product
        product -> elementwise -> product
        product -> pixels by index, as `interpolate` takes them -> concat -> product

    `attn-conv-products` turns what a product makes, and what it reads. Of what elementwise ops
    stand between (norms, a residual, ReLU) IREE 3.13 makes one kernel with the product, which
    writes its result across, and twice where a residual reads it: 2 to 4 times a product's time
    (256 channels of 56 x 56); and kernels for products do what stands behind them alone. An op goes
    over if all of the image's size that it reads was turned so, or is for another product, and if
    its result, by others or not, is turned back. What else reads that gets it turned, by a kernel
    of its own. Pixels that are taken by index lie in vectors of channels then, where IREE gathered
    them one by one: bilinear ones of 256 x 64 x 64 take 0.6 to 1.1 ms, 2 before (one thread of a
    Zen 3).
    """

    name = "attn-channels-last"
    summary = "NVIDIA GPUs and CPUs: channels stay last between products"
    why = "IREE writes products that are turned across"
    backends = ("cuda", "llvm-cpu")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        if not self.is_for(module):
            return False
        last = dict(_turned(module))
        forth = dict(_turned_forth(module, last))
        chosen = _chosen(module, last | forth)
        read = {image for op in chosen for image in _images(op)}
        last |= {image: _with_lines(image, last[image]) for image in last.keys() & read}
        last |= {image: _turned_early(image, forth[image]) for image in forth if image in read}
        for op in chosen:
            context.report.record(op, "fitted", "reads and writes channels last")
            _turn(op, last)
        # Dead ones would be readers for those who look for what reads a product.
        turned = [one for op in chosen for one in _give(op.results[0], last)]
        erase_dead([*chosen, *turned])
        return bool(chosen)


def _turned(module: ir.Operation) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Images whose channels were last in a product, and what they were turned from: lines of
    pixels, or rows that are cut into lines behind it."""
    for op in collect(module, lambda op: op.name == _TRANSPOSE, bodies=False):
        if _order(op) == _back(len(_order(op))) and _is_of_product(op.operands[0]):
            yield op.results[0], op.operands[0]
            for cut in filter(_cuts_lines, users(op.results[0])):
                yield cut.results[0], op.operands[0]


def _turned_forth(
    module: ir.Operation, last: Mapping[ir.Value, ir.Value]
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Other images that a product reads channels last, and what they are turned to."""
    for op in collect(module, _is_forth, bodies=False):
        made = defining_op(op.operands[0])
        if op.operands[0] not in last and made is not None and not is_elementwise(made):
            yield op.operands[0], op.results[0]


def _turned_early(image: ir.Value, turned: ir.Value) -> ir.Value:
    """An image, channels last, in front of all that reads it."""
    build = Builder(next_op(image.owner.operation))
    early = build.transpose(image, maps.inverse(_back(len(ranked_shape(image)))))
    turned.replace_all_uses_with(early)
    return early


def _cuts_lines(op: ir.Operation) -> bool:
    """Whether an op cuts the pixels of (batch, channels, pixels), and nothing else."""
    if op.name != "tensor.expand_shape":
        return False
    groups = index_array(op.attributes["reassociation"])
    return [len(group) for group in groups[:-1]] == [1, 1]


def _with_lines(image: ir.Value, source: ir.Value) -> ir.Value:
    """What an image was turned from, cut into lines as the image is."""
    op = defining_op(image)
    if op is None or not _cuts_lines(op):
        return source
    batch, channels, *pixels = sizes_of(image)
    return Builder(op).split_dims(source, [[batch], pixels, [channels]])


def _order(op: ir.Operation) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(op.attributes["permutation"]))


def _back(rank: int) -> tuple[int, ...]:
    """The order in which channels that are last become those behind the batch."""
    return (0, rank - 1, *range(1, rank - 1))


def _is_of_product(value: ir.Value) -> bool:
    """Whether a product makes this, with a bias or not."""
    while (op := defining_op(value)) is not None and not is_contraction(op):
        if op.name not in (*RESHAPES, BARRIER) and not is_elementwise(op):
            return False
        value = op.operands[0]
    return op is not None


def _chosen(module: ir.Operation, last: Mapping[ir.Value, ir.Value]) -> list[ir.Operation]:
    """The ops that go over: what of the image's size they read was turned or is made by one of
    them, and what they make is turned back, by others of them or not."""
    found: dict[ir.Value, ir.Operation] = {}
    for op in collect(module, lambda op: is_elementwise(op) or _joins(op), bodies=False):
        images = _images(op)
        if images and all(value in last or value in found for value in images):
            found[op.results[0]] = op
    leads: set[ir.Value] = set()
    for result in reversed(found):
        readers = map(_reader, users(result))
        if any(_is_forth(op) or {*op.results} & leads for op in readers):
            leads.add(result)
    return [op for result, op in found.items() if result in leads]


def _joins(op: ir.Operation) -> bool:
    """Whether an op puts channels of images side by side."""
    return op.name == "tensor.concat" and concat_dim(op) == 1


def _images(op: ir.Operation) -> list[ir.Value]:
    """What an elementwise op reads at the places that it writes to, or takes pixels of by index,
    or what is joined; none where it reads pixels otherwise, or fewer than two dims of them."""
    if _joins(op):
        return list(op.operands) if len(ranked_shape(op.results[0])) >= 4 else []
    *read, written = maps.positions(op) or ((),)
    rank = len(written)
    if rank < 4 or written != (*range(rank),) or is_used(body_of(op).arguments[len(read)]):
        return []
    if not _is_plain(op):
        image = sampled_image(op)
        return [] if image is None else [image]
    images = [op.operands[number] for number, dims in enumerate(read) if dims == written]
    others = [dims for dims in read if dims != written]
    return images if all(map(_is_beside, others)) else []


def _reader(user: ir.Operation) -> ir.Operation:
    """The op that reads what `user` does, which may stand in its body."""
    outer = user.parent
    return outer.operation if outer is not None and outer.name == "linalg.generic" else user


def _is_plain(op: ir.Operation) -> bool:
    """Whether a body computes of numbers that it is given alone."""
    return all(inner.name.startswith(_PLAIN) for inner in body_ops(op))


def _is_beside(dims: maps.Positions) -> bool:
    """Whether numbers of these dims are few beside an image: of channels, lines or pixels."""
    return {*dims} <= {None, 0, 1} or len({*dims} - {None}) == 1


def _is_forth(op: ir.Operation) -> bool:
    """Whether an op turns an image so that its channels are last."""
    return op.name == _TRANSPOSE and _order(op) == maps.inverse(_back(len(_order(op))))


def _turn(op: ir.Operation, last: dict[ir.Value, ir.Value]) -> None:
    """Makes an op again, channels last."""
    build, (result,) = Builder(op), op.results
    sizes = sizes_of(result)
    if _joins(op):
        last[result] = build.concat([last[value] for value in op.operands], len(sizes) - 1)
        return
    place = maps.inverse(_back(len(sizes)))
    # Where each loop stands now.
    loops: dict[int | None, int | None] = {None: None}
    loops |= {dim: at for at, dim in enumerate(place)}
    if not _is_plain(op):
        (image,) = _images(op)
        last[result] = sample_last(op, last[image], loops)
        return
    *read, written = maps.positions(op) or ((),)
    reads = [
        (last[value], written) if dims == written else (value, tuple(loops[dim] for dim in dims))
        for value, dims in zip(op.operands, read, strict=False)
    ]
    init = build.empty([sizes[dim] for dim in place], element_type(result))
    made = copy_generic(op, [*reads, (init, written)], iterator_kinds(op), build)
    last[result] = made.results[0]


def _give(result: ir.Value, last: Mapping[ir.Value, ir.Value]) -> list[ir.Operation]:
    """Gives what reads the result of an op that was made again, and was not itself, the new one.
    Returns the transposes that nothing reads now."""
    readers = [user for user in users(result) if not {*_reader(user).results} & last.keys()]
    forth = [*filter(_is_forth, readers)]
    for op in forth:
        op.results[0].replace_all_uses_with(last[result])
    others = [op for op in readers if not _is_forth(op)]
    if others:
        made = last[result]
        build = Builder(next_op(made.owner.operation))
        turned = compute_barrier(build, build.transpose(made, _back(len(sizes_of(made)))))
        for op in others:
            replace_operand(op, result, turned)
    return forth
