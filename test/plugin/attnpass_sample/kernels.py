"""A kernel for the sample CPU: a function that computes attention by products and a softmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iree.compiler import ir

from attnpass.ir import Builder, Refusal, body_of, module_of
from attnpass.kernels import KernelProvider, Offer

from .machine import SampleCpu

if TYPE_CHECKING:
    from attnpass.attention.facts import AttentionFacts
    from attnpass.ir import maps
    from attnpass.machines import Target

KERNEL = """
util.func private @{name}(%q: {q}, %k: {k}, %v: {v}, %scale: f32) -> {o} {{
  %zero = arith.constant 0.0 : f32
  %scores = tensor.empty() : {s}
  %sums = linalg.fill ins(%zero : f32) outs(%scores : {s}) -> {s}
  %qk = linalg.contract indexing_maps = [{qk}] ins(%q, %k : {q}, {k}) outs(%sums : {s}) -> {s}
  %scales = tensor.splat %scale : {s}
  %scaled = arith.mulf %qk, %scales : {s}
  %p = linalg.softmax dimension({last}) ins(%scaled : {s}) outs(%scores : {s}) -> {s}
  %empty = tensor.empty() : {o}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {o}) -> {o}
  %pv = linalg.contract indexing_maps = [{pv}] ins(%p, %v : {s}, {v}) outs(%zeros : {o}) -> {o}
  util.return %pv : {o}
}}
"""


class SampleKernels(KernelProvider):
    """Kernels for f32, known sizes and no mask: one reads V, and a faster one V^T."""

    backends = ("llvm-cpu",)

    def unfit_target(self, module: ir.Operation, target: Target | None) -> Refusal | None:
        if not isinstance(target, SampleCpu):
            return Refusal("the sample's kernel needs its CPU")
        return None

    def offers(
        self, facts: AttentionFacts, target: Target, value_map: maps.Positions | None = None
    ) -> Sequence[Offer] | Refusal:
        if facts.kind != "attention" or facts.has_mask or facts.changes_scores:
            return Refusal("the sample's kernel has no masks, and no scores of its own")
        if {facts.element_types[name] for name in ("query", "key", "value", "output")} != {"f32"}:
            return Refusal("the sample's kernel is for f32")
        if None in facts.sizes or any(None in dims for dims in facts.maps) or len(facts.k2) != 1:
            return Refusal("the sample's kernel wants every dim and its size, and one of keys")
        if (value_map or facts.map_of("value"))[-1] in facts.k2:
            return [SampleKernel(name="sample_attention_vt", seconds=1e-3, reason="it reads V^T")]
        return [SampleKernel(name="sample_attention", seconds=1e-5, reason="it reads V")]


@dataclass(frozen=True, kw_only=True)
class SampleKernel(Offer):
    """The kernel for one attention."""

    def replace(self, facts: AttentionFacts, elsewhere: bool) -> None:
        build, body = Builder(facts.op), body_of(module_of(facts.op))
        name = f"{self.name}_{len(body.operations)}"
        body.append(ir.Operation.parse(_text(facts, name)))
        operands = [facts.value(each) for each in ("query", "key", "value", "scale")]
        callee: dict[str, ir.Attribute] = {"callee": ir.FlatSymbolRefAttr.get(name)}
        (old,) = facts.op.results
        (new,) = build.create("util.call", [old.type], operands, callee).results
        old.replace_all_uses_with(new)


def _text(facts: AttentionFacts, name: str) -> str:
    scores = (*facts.batch, *facts.m, *facts.k2)
    sizes = "x".join(str(facts.sizes[dim]) for dim in scores)
    types = {each[0]: facts.value(each).type for each in ("query", "key", "value", "output")}
    query, key, value, output = map(facts.map_of, ("query", "key", "value", "output"))
    (keys,) = facts.k2
    return KERNEL.format(
        name=name,
        **types,
        s=f"tensor<{sizes}xf32>",
        qk=_contraction(query, key, scores),
        pv=_contraction(scores, value, output),
        last=scores.index(keys),
    )


def _contraction(*positions: Sequence[int | None]) -> str:
    """The maps of a product whose operands and result have these dims."""
    loops = sorted({dim for dims in positions for dim in dims if dim is not None})
    given = ", ".join(f"d{dim}" for dim in loops)
    reads = (", ".join(f"d{dim}" for dim in dims) for dims in positions)
    return ", ".join(f"affine_map<({given}) -> ({read})>" for read in reads)
