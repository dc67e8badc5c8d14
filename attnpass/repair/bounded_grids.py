"""attn-bounded-grids: samples of a grid read inside their image, as their padding says."""

from __future__ import annotations

from iree.compiler import ir

from ..ir.printed import torch_element, torch_shape, torch_tensor
from ..ir.torch_ops import CODES, TorchBuilder, constant_number, constant_truth
from ..passes import OpPass

_ZEROS, _BORDER, _REFLECTION = range(3)
_BILINEAR_OR_NEAREST = (0, 1)
# By how much zeros begin nearer, as a part: rounded, no place lies a whole element outside then.
_NEARER = {"f64": 2.0**-50, "f32": 2.0**-21}
_NARROW = ("f16", "bf16")
_FLOATS = (*_NEARER, *_NARROW)


class BoundedGrids(OpPass):
    """Bounds the places at which `torch.aten.grid_sampler` reads.

    IREE 3.13 imports all paddings as zeros, and reads what stands in memory beside the image where
    a place lies an element or more outside. Zeros become a choice behind the op, places beyond the
    border the border's, and mirrored ones are computed. Works on the torch dialect, before IREE
    imports it, on images of two dims; cubic samples, which it takes for bilinear ones, are refused.
    """

    name = "attn-bounded-grids"
    summary = "bounded grid samples"
    ops = ("torch.aten.grid_sampler",)
    phase = "start"
    mends = "samples of a grid read outside their image"
    erases = True

    def change(self, op: ir.Operation) -> str:
        image, grid, mode, padding, corners = op.operands
        ends = constant_truth(corners)
        if (
            ends is None
            or constant_number(mode) not in _BILINEAR_OR_NEAREST
            or len(torch_shape(image.type)) != 4
            or torch_element(grid.type) not in _FLOATS
        ):
            return ""
        build = _Grids(op)
        narrow = None
        if torch_element(grid.type) in _NARROW:
            # IREE's import divides in f32 by what it adds in 16 bits.
            narrow = op.results[0].type
            image, grid = (build.in_type(value, "f32") for value in (image, grid))
        kind = torch_tensor(torch_shape(op.results[0].type), torch_element(image.type))
        if constant_number(padding) == _ZEROS:
            near = build.near(grid, build.edges(image, grid, 1, int(ends)))
            grid = build.chosen(build.with_units(near, 0, 1), grid, build.real(0.0))
            result = build.op("aten.grid_sampler", kind, image, grid, mode, padding, corners)
            result = build.chosen(build.unsqueezed(near, 1), result, build.real(0.0))
        elif constant_number(padding) in (_BORDER, _REFLECTION):
            if constant_number(padding) == _REFLECTION:
                grid = build.mirrored(grid)
            grid = build.between(grid, build.edges(image, grid, -1, int(ends)))
            result = build.op("aten.grid_sampler", kind, image, grid, mode, padding, corners)
        else:
            return ""
        if narrow is not None:
            result = build.in_type(result, torch_element(narrow))
        op.results[0].replace_all_uses_with(result)
        return "reads at places inside its image"


class _Grids(TorchBuilder):
    """`TorchBuilder` for grids `[batch, rows, columns, 2]`, from -1 to 1 in x and y."""

    def edges(self, image: ir.Value, grid: ir.Value, more: int, ends: int) -> ir.Value:
        """For x and y `(size + more) / (size - ends)`: how far from the middle an edge lies, where
        -1 and 1 are the edges of the outermost elements, or their middles (`ends`)."""
        element, sizes = torch_element(grid.type), torch_shape(image.type)[:1:-1]
        if None not in sizes:
            nearer = 1 - _NEARER[element] * (more > 0)
            edges = [(size + more) / max(size - ends, 1) * nearer for size in sizes if size]
            text = f"dense<{edges}> : tensor<2x{element}>"
            value = {"value": ir.Attribute.parse(text)}
            kind = torch_tensor([2], element)
            return self.create("torch.vtensor.literal", [kind], [], value).results[0]
        kind, one = torch_tensor([1], element), self.number(1)
        none = self.none()
        length = self.listed([one])
        parts = []
        for dim in (3, 2):
            given = self.size_of(image, dim), self.number(CODES[element]), none, none, none
            size = self.op("aten.full", kind, length, *given)
            above = self.op("aten.add.Scalar", kind, size, self.number(more), one)
            below = self.op("aten.sub.Scalar", kind, size, self.number(ends), one)
            below = self.op("aten.clamp", kind, below, one, none)
            parts.append(self.op("aten.div.Tensor", kind, above, below))
        kind = torch_tensor([2], element)
        edges = self.op("aten.cat", kind, self.listed(parts, "vtensor"), self.number(0))
        if more < 0:
            return edges
        return self.op("aten.mul.Scalar", kind, edges, self.real(1 - _NEARER[element]))

    def near(self, grid: ir.Value, edges: ir.Value) -> ir.Value:
        """Where x and y lie between the edges: `[batch, rows, columns]`; not where one is NaN."""
        shape = torch_shape(grid.type)
        far = self.op("aten.abs", grid.type, grid)
        near = self.op("aten.lt.Tensor", torch_tensor(shape, "i1"), far, edges)
        no = self.truth(False)
        return self.op("aten.all.dim", torch_tensor(shape[:-1], "i1"), near, self.number(-1), no)

    def between(self, grid: ir.Value, edges: ir.Value) -> ir.Value:
        """Places beyond an edge, and NaN, are on it."""
        truths = torch_tensor(torch_shape(grid.type), "i1")
        below = self.op("aten.neg", edges.type, edges)
        inside = self.op("aten.gt.Tensor", truths, grid, below)
        grid = self.op("aten.where.self", grid.type, inside, grid, below)
        inside = self.op("aten.lt.Tensor", truths, grid, edges)
        return self.op("aten.where.self", grid.type, inside, grid, edges)

    def mirrored(self, grid: ir.Value) -> ir.Value:
        """Places behind -1 and 1 as those in front: `1 - |t - 2|` of `t = (x + 1) mod 4`."""
        one, kind = self.real(1.0), grid.type
        moved = self.op("aten.add.Scalar", kind, grid, one, one)
        turns = self.op("aten.mul.Scalar", kind, moved, self.real(0.25))
        turns = self.op("aten.floor", kind, turns)
        turned = self.op("aten.sub.Tensor", kind, moved, turns, self.real(4.0))
        turned = self.op("aten.sub.Scalar", kind, turned, self.real(2.0), one)
        turned = self.op("aten.abs", kind, turned)
        return self.op("aten.rsub.Scalar", kind, turned, one, one)

    def chosen(self, where: ir.Value, value: ir.Value, other: ir.Value) -> ir.Value:
        return self.op("aten.where.ScalarOther", value.type, where, value, other)
