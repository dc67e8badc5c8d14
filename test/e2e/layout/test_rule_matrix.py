"""Every producer rule against every kind of case: a rule without one of them fails here.

Per rule: numbers end to end, with a dynamic length, with V read by others, and in bf16; and
a chain that is refused, with the reason. `EXEMPT` says why a rule lacks a case.

In the texts, $T is the element type, $S the number of keys (dynamic: `?`), $D the operand
that gives it to an op, if any, and $N it as a size; %x is an argument that has it in dim 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from helpers import ALL_RUN, compile_text, rel_error, renamed, run_module, symbol
from interpreter import meaning
from iree.compiler import ir
from produced_v import HEAD, KEYS, module_text, project

import attnpass
from attnpass.driver.testing import decisions
from attnpass.layout.rules import RULES
from attnpass.report.entries import AttentionRecord
from bench.device import several

ALL = 'iterator_types = ["parallel", "parallel", "parallel"]'


@dataclass(frozen=True)
class Case:
    """How a rule's op makes %v : 4 x $S x 16 out of `arguments` (name -> type).

    `refused` is a body that the rule cannot take, with its arguments; `reason` a part of
    what the report says. `decision` is what the plan comes to, `exempt` the cases that the
    rule cannot have, each with the reason.
    """

    arguments: dict[str, str]
    body: str
    refused: str
    reason: str
    refused_arguments: dict[str, str] | None = None
    keys_when_refused: int = KEYS
    decision: str = "absorbed"
    decision_with_users: str = "absorbed"
    exempt: tuple[tuple[str, str], ...] = ()


def heads(name: str) -> str:
    """%name : 2 x $S x 2 x 16, a contraction of x 2 x $S x 24 with w 24 x 2 x 16."""
    kind = "tensor<2x$Sx2x16x$T>"
    return f"""
  %hz = arith.constant 0.0 : $T
  %he = tensor.empty($D) : {kind}
  %hf = linalg.fill ins(%hz : $T) outs(%he : {kind}) -> {kind}
  %{name} = linalg.contract indexing_maps = [affine_map<(b, s, h, d, k) -> (b, s, k)>,
      affine_map<(b, s, h, d, k) -> (k, h, d)>, affine_map<(b, s, h, d, k) -> (b, s, h, d)>]
      ins(%x, %w : tensor<2x$Sx24x$T>, tensor<24x2x16x$T>) outs(%hf : {kind}) -> {kind}
"""


def transposed(source: str, target: str) -> str:
    """2 x $S x 2 x 16 to 2 x 2 x $S x 16."""
    return f"""
  %{target}e = tensor.empty($D) : tensor<2x2x$Sx16x$T>
  %{target} = linalg.transpose ins(%{source} : tensor<2x$Sx2x16x$T>)
      outs(%{target}e : tensor<2x2x$Sx16x$T>) permutation = [0, 2, 1, 3]
"""


COLLAPSE = """
  %v = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<2x2x$Sx16x$T> into tensor<4x$Sx16x$T>
"""
X = {"x": "4x$Sx24x$T", "w": "4x24x16x$T"}
HEADS = {"x": "2x$Sx24x$T", "w": "24x2x16x$T"}
ARGUMENT = "it is an argument of @main"

CASES = {
    "views:WholeView linalg.transpose": Case(
        HEADS,
        heads("h") + transposed("h", "t") + COLLAPSE,
        transposed("x", "t") + COLLAPSE,
        ARGUMENT,
        {"x": "2x$Sx2x16x$T"},
    ),
    "views:WholeView tensor.expand_shape": Case(
        {"x": "2x$Sx24x$T", "w": "2x24x32x$T"},
        project(columns=32).replace("<4x", "<2x")
        + """
  %h = tensor.expand_shape %p [[0], [1], [2, 3]] output_shape [2, $N, 2, 16]
      : tensor<2x$Sx32x$T> into tensor<2x$Sx2x16x$T>
"""
        + transposed("h", "t")
        + COLLAPSE,
        """
  %h = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [2, $N, 2, 16]
      : tensor<2x$Sx32x$T> into tensor<2x$Sx2x16x$T>
"""
        + transposed("h", "t")
        + COLLAPSE,
        ARGUMENT,
        {"x": "2x$Sx32x$T"},
    ),
    "views:WholeView tensor.collapse_shape": Case(
        HEADS,
        heads("h") + transposed("h", "t") + COLLAPSE,
        """
  %c = tensor.collapse_shape %x [[0], [1, 2], [3]] : tensor<4x6x6x16x$T> into tensor<4x36x16x$T>
  %h = tensor.expand_shape %c [[0], [1, 2], [3]] output_shape [4, 4, 9, 16]
      : tensor<4x36x16x$T> into tensor<4x4x9x16x$T>
  %te = tensor.empty() : tensor<4x9x4x16x$T>
  %t = linalg.transpose ins(%h : tensor<4x4x9x16x$T>) outs(%te : tensor<4x9x4x16x$T>)
      permutation = [0, 2, 1, 3]
  %v = tensor.collapse_shape %t [[0], [1, 2], [3]] : tensor<4x9x4x16x$T> into tensor<4x36x16x$T>
""",
        "the collapsed dims cannot be cut as the layout needs",
        {"x": "4x6x6x16x$T"},
        36,
    ),
    "views:WholeView tensor.reshape": Case(
        HEADS,
        heads("h")
        + transposed("h", "t")
        + """
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %length = arith.constant 1 : index
  %size = tensor.dim %x, %length : tensor<2x$Sx24x$T>
  %shape = tensor.from_elements %c4, %size, %c16 : tensor<3xindex>
  %v = tensor.reshape %t(%shape) : (tensor<2x2x$Sx16x$T>, tensor<3xindex>) -> tensor<4x$Sx16x$T>
""",
        """
  %v = tensor.reshape %x(%w) : (tensor<?x?x16x$T>, tensor<3xindex>) -> tensor<4x$Sx16x$T>
""",
        "the dynamic sizes of the reshape cannot be matched",
        {"x": "?x?x16x$T", "w": "3xindex"},
    ),
    "views:Cast": Case(
        X,
        project()
        + """
  %c = tensor.cast %p : tensor<4x$Sx16x$T> to tensor<?x?x16x$T>
  %v = tensor.cast %c : tensor<?x?x16x$T> to tensor<4x$Sx16x$T>
""",
        "\n  %v = tensor.cast %x : tensor<*x$T> to tensor<4x$Sx16x$T>\n",
        "it casts an unranked tensor",
        {"x": "*x$T"},
    ),
    "elementwise:Elementwise": Case(
        X,
        project()
        + """
  %h = arith.mulf %p, %p : tensor<4x$Sx16x$T>
  %v = arith.negf %h : tensor<4x$Sx16x$T>
""",
        "\n  %v = arith.addf %x, %x : tensor<4x$Sx16x$T>\n",
        "is public and keeps its signature",
        {"x": "4x$Sx16x$T"},
    ),
    "broadcast:Broadcast": Case(
        {"x": "2x$Sx16x$T"},
        """
  %e = tensor.empty($D) : tensor<2x2x$Sx16x$T>
  %t = linalg.broadcast ins(%x : tensor<2x$Sx16x$T>) outs(%e : tensor<2x2x$Sx16x$T>)
      dimensions = [1]
"""
        + COLLAPSE,
        """
  %e = tensor.empty($D) : tensor<4x$Sx16x$T>
  %v = linalg.broadcast ins(%x : tensor<4x$Sx$T>) outs(%e : tensor<4x$Sx16x$T>) dimensions = [2]
""",
        "the broadcast is along a dim that its reader needs",
        {"x": "4x$Sx$T"},
        decision="folded",
        decision_with_users="refused",
    ),
    "loop_nest:LoopNest": Case(
        {**X, "c": "16x$T"},
        project()
        + f"""
  %v = linalg.generic {{indexing_maps = [#id, #last, #id], {ALL}}}
      ins(%p, %c : tensor<4x$Sx16x$T>, tensor<16x$T>) outs(%pe : tensor<4x$Sx16x$T>) {{
    ^bb0(%a: $T, %b: $T, %old: $T):
      %sum = arith.addf %a, %b : $T
      linalg.yield %sum : $T
  }} -> tensor<4x$Sx16x$T>
""",
        project()
        + f"""
  %v, %other = linalg.generic {{indexing_maps = [#id, #id, #id], {ALL}}}
      ins(%p : tensor<4x$Sx16x$T>) outs(%pe, %pe : tensor<4x$Sx16x$T>, tensor<4x$Sx16x$T>) {{
    ^bb0(%a: $T, %b: $T, %old: $T):
      linalg.yield %a, %a : $T, $T
  }} -> (tensor<4x$Sx16x$T>, tensor<4x$Sx16x$T>)
""",
        "it has several results",
    ),
    "contraction:Contraction": Case(
        X,
        project(name="v"),
        project(name="v").replace(
            "linalg.batch_matmul",
            "linalg.batch_matmul {lowering_config = #iree_codegen.lowering_config<"
            "tile_sizes = [[1]]>}",
        ),
        "it has its own lowering_config",
    ),
    "slices:ExtractSlice": Case(
        {"x": "4x$Sx24x$T", "w": "4x24x48x$T"},
        project(columns=48)
        + """
  %v = tensor.extract_slice %p[0, 0, 16] [4, $N, 16] [1, 1, 1]
      : tensor<4x$Sx48x$T> to tensor<4x$Sx16x$T>
""",
        project(columns=48)
        + """
  %v = tensor.extract_slice %p[0, 0, 1] [4, $N, 16] [1, 1, 3]
      : tensor<4x$Sx48x$T> to tensor<4x$Sx16x$T>
""",
        "it slices with a stride",
        # V alone would be computed apart from what is returned, and no copy saved.
        decision_with_users="refused",
    ),
    "concat:Concat": Case(
        {"x": "4x$Sx24x$T", "w": "4x24x8x$T"},
        project(columns=8)
        + """
  %v = tensor.concat dim(2) %p, %p
      : (tensor<4x$Sx8x$T>, tensor<4x$Sx8x$T>) -> tensor<4x$Sx16x$T>
""",
        """
  %c = tensor.concat dim(1) %x, %x : (tensor<2x16x2x16x$T>, tensor<2x16x2x16x$T>)
      -> tensor<2x32x2x16x$T>
  %h = tensor.expand_shape %c [[0], [1, 2], [3], [4]] output_shape [2, 16, 2, 2, 16]
      : tensor<2x32x2x16x$T> into tensor<2x16x2x2x16x$T>
  %te = tensor.empty() : tensor<2x2x2x16x16x$T>
  %t = linalg.transpose ins(%h : tensor<2x16x2x2x16x$T>) outs(%te : tensor<2x2x2x16x16x$T>)
      permutation = [0, 3, 2, 1, 4]
  %v = tensor.collapse_shape %t [[0, 1], [2, 3], [4]]
      : tensor<2x2x2x16x16x$T> into tensor<4x32x16x$T>
""",
        "a dim that it puts together would be split",
        {"x": "2x16x2x16x$T"},
    ),
    "concat:Pad": Case(
        {"x": "4x$Sx24x$T", "w": "4x24x12x$T"},
        project(columns=12)
        + """
  %v = tensor.pad %p low[0, 0, 1] high[0, 0, 3] {
    ^bb0(%i: index, %j: index, %l: index):
      tensor.yield %pz : $T
  } : tensor<4x$Sx12x$T> to tensor<4x$Sx16x$T>
""",
        project(columns=12)
        + """
  %v = tensor.pad %p low[0, 0, 1] high[0, 0, 3] {
    ^bb0(%i: index, %j: index, %l: index):
      %c = arith.index_cast %j : index to i32
      %y = arith.sitofp %c : i32 to $T
      tensor.yield %y : $T
  } : tensor<4x$Sx12x$T> to tensor<4x$Sx16x$T>
""",
        "its padding value depends on the place",
    ),
    "concat:InsertSlice": Case(
        {"x": "4x$Sx24x$T", "w": "4x24x12x$T"},
        project(columns=12)
        + """
  %one = arith.constant 1.0 : $T
  %de = tensor.empty($D) : tensor<4x$Sx16x$T>
  %d = linalg.fill ins(%one : $T) outs(%de : tensor<4x$Sx16x$T>) -> tensor<4x$Sx16x$T>
  %v = tensor.insert_slice %p into %d[0, 0, 3] [4, $N, 12] [1, 1, 1]
      : tensor<4x$Sx12x$T> into tensor<4x$Sx16x$T>
""",
        """
  %z = arith.constant 0.0 : $T
  %de = tensor.empty($D) : tensor<4x$Sx16x$T>
  %d = linalg.fill ins(%z : $T) outs(%de : tensor<4x$Sx16x$T>) -> tensor<4x$Sx16x$T>
  %v = tensor.insert_slice %x into %d[0, 0, 0] [4, $N, 8] [1, 1, 2]
      : tensor<4x$Sx8x$T> into tensor<4x$Sx16x$T>
""",
        "it inserts with a stride",
        {"x": "4x$Sx8x$T"},
    ),
    "constant:Constant": Case(
        {},
        "  %v = arith.constant $DENSE : tensor<4x$Sx16x$T>\n",
        "  %v = arith.constant dense_resource<nowhere> : tensor<4x$Sx16x$T>\n",
        "it is a resource whose bytes are not in the module",
        exempt=(("dynamic", "a constant has a static shape"),),
    ),
    "gather:Gather": Case(
        {**X, "i": "4xi32"},
        project()
        + """
  %v = iree_linalg_ext.gather dimension_map = [0]
      ins(%p, %i : tensor<4x$Sx16x$T>, tensor<4xi32>) outs(%pe : tensor<4x$Sx16x$T>)
      -> tensor<4x$Sx16x$T>
""",
        """
  %e = tensor.empty($D) : tensor<4x$Sx16x$T>
  %v = iree_linalg_ext.gather dimension_map = [0]
      ins(%w, %x, %c : tensor<64x16x$T>, tensor<4x$Sxi32>, tensor<4x$Sxi1>)
      outs(%e : tensor<4x$Sx16x$T>) -> tensor<4x$Sx16x$T>
""",
        "its mask leaves it no other order of its dims",
        {"x": "4x$Sxi32", "w": "64x16x$T", "c": "4x$Sxi1"},
    ),
    "gather:Scatter": Case(
        {**X, "u": "5x$T", "i": "5x3xi32"},
        project()
        + """
  %v = iree_linalg_ext.scatter dimension_map = [0, 1, 2] unique_indices(true)
      ins(%u, %i : tensor<5x$T>, tensor<5x3xi32>) outs(%p : tensor<4x$Sx16x$T>) {
    ^bb0(%new: $T, %old: $T):
      iree_linalg_ext.yield %new : $T
  } -> tensor<4x$Sx16x$T>
""",
        project()
        + """
  %v = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true)
      ins(%u, %i : tensor<5x16x$T>, tensor<5x2xi32>) outs(%p : tensor<4x$Sx16x$T>) {
    ^bb0(%new: $T, %old: $T):
      iree_linalg_ext.yield %new : $T
  } -> tensor<4x$Sx16x$T>
""",
        "would go before an indexed dim",
        {**X, "u": "5x16x$T", "i": "5x2xi32"},
    ),
    "destination:Empty": Case(
        X,
        project()
        + """
  %de = tensor.empty($D) : tensor<4x$Sx16x$T>
  %v = tensor.insert_slice %p into %de[0, 0, 0] [4, $N, 16] [1, 1, 1]
      : tensor<4x$Sx16x$T> into tensor<4x$Sx16x$T>
""",
        "",
        "",
        exempt=(("refused", "an empty tensor has every layout"),),
    ),
    "destination:Fill": Case(
        {"x": "4x$Sx1x$T"},
        """
  %z = arith.constant 0.5 : $T
  %e = tensor.empty($D) : tensor<4x$Sx16x$T>
  %v = linalg.fill ins(%z : $T) outs(%e : tensor<4x$Sx16x$T>) -> tensor<4x$Sx16x$T>
""",
        "",
        "",
        exempt=(("refused", "a filled tensor has every layout"),),
    ),
}
CELLS = ("static", "dynamic", "users", "bf16", "refused")


# V is read, transposed, by the caller, too: the order that the plan gives it.
COPY = """
  %copye = tensor.empty($D) : tensor<4x16x$Sx$T>
  %copy = linalg.transpose ins(%v : tensor<4x$Sx16x$T>) outs(%copye : tensor<4x16x$Sx$T>)
      permutation = [0, 2, 1]
"""


def inputs_for(arguments: dict[str, str]) -> list[np.ndarray]:
    """Random inputs; indices lie inside every dim of V and are unique."""
    generator = np.random.default_rng(7)
    found = []
    for kind in ("4x8x16x$T", "4x$Sx16x$T", *arguments.values()):
        *sizes, element = kind.replace("$S", str(KEYS)).split("x")
        shape = tuple(int(size) for size in sizes)
        if element != "i32":
            found.append(generator.standard_normal(shape).astype(np.float32))
        elif shape[-1] == 3:
            places = generator.choice(4 * KEYS * 16, shape[0], replace=False)
            found.append(np.stack(np.unravel_index(places, (4, KEYS, 16)), 1).astype(np.int32))
        else:
            found.append(generator.integers(0, 4, shape).astype(np.int32))
    return found


def test_every_rule_has_a_case() -> None:
    assert {f"attnpass.layout.rules.{name.split()[0]}" for name in CASES} == set(RULES)


def text_of(case: Case, cell: str) -> str:
    """`main` of a case as a cell has it."""
    return module_text(
        case.arguments,
        case.body,
        element="bf16" if cell == "bf16" else "f32",
        dynamic=cell == "dynamic",
        returned=COPY if cell == "users" else "",
    )


# Cells of which every other case is compiled, in turns; the others are interpreted.
TURNS = {"static": 0, "dynamic": 1, "users": 0, "bf16": 1}


def is_compiled(name: str, cell: str) -> bool:
    return ALL_RUN or [*CASES].index(name) % 2 == TURNS[cell]


@cache
def compiled(cell: str) -> tuple[bytes, dict[str, AttentionRecord]]:
    """A function of each case that has this cell, and what was decided for its attention."""
    names = [
        name
        for name, case in CASES.items()
        if cell not in dict(case.exempt) and is_compiled(name, cell)
    ]
    text = HEAD
    for name in names:
        text += renamed(text_of(CASES[name], cell).removeprefix(HEAD), symbol(name))
    report = attnpass.Report()
    flags = ["--attn-phase=start", "--attn-fail-on=fallback"]
    vmfb = compile_text(text, mode="always", flags=flags, report=report)
    return vmfb, dict(zip(names, report.attentions, strict=True))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", CASES)
def test_cell(name: str, cell: str) -> None:
    case = CASES[name]
    why = dict(case.exempt).get(cell)
    if why is not None:
        pytest.skip(why)
    if cell == "refused":
        check_refused(case)
        return
    given = inputs_for(case.arguments)
    wanted = meaning(text_of(case, "static" if cell == "bf16" else cell), given)
    if is_compiled(name, cell):
        vmfb, records = compiled(cell)
        record = records[name]
        if cell == "bf16":
            given = [x.astype(ml_dtypes.bfloat16) if x.dtype == np.float32 else x for x in given]
        results = several(run_module(vmfb, given, symbol(name)))
    else:
        text, record = rewritten(text_of(case, cell))
        results = meaning(text, given)
    for result, right in zip(results, wanted, strict=True):
        rounds = cell == "bf16" and is_compiled(name, cell)
        assert rel_error(result, right) <= (2e-2 if rounds else 1e-5)
    decided = [operand.decision for operand in record.operands if operand.operand == "value"]
    assert decided == [case.decision_with_users if cell == "users" else case.decision], record
    assert record.shapes["value"] == [4, None if cell == "dynamic" else KEYS, 16]


def rewritten(text: str) -> tuple[str, AttentionRecord]:
    """A module behind the pass, and what that decided for its attention."""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        report = attnpass.run(module, "attn-propagate-layout{mode=always}")
        (record,) = report.attentions
        return str(module), record


def check_refused(case: Case) -> None:
    """The report says why, and the module stays as it was."""
    arguments = case.arguments if case.refused_arguments is None else case.refused_arguments
    text = module_text(arguments, case.refused, keys=case.keys_when_refused)
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        before = str(module)
        report = attnpass.run(module, "attn-propagate-layout{mode=always}")
        assert case.reason in report.to_text()
        assert decisions(report) != ["absorbed"]
        assert str(module) == before
