"""Which masks of a lowered kernel are those of rows beyond the end, that nobody needs."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from attnpass.gpu.lowered.edge_masks import drop_edge_masks
from attnpass.ir import collect

KERNEL = """
func.func @kernel(%x: vector<4xf32>, %size: index) {{
  %zeros = arith.constant dense<{otherwise}> : vector<4xf32>
  %steps = vector.step : vector<4xindex>
  %c1 = arith.constant 1 : index
  scf.forall (%head, %row) = (0, 0) to (8, 1000) step (1, 96) {{
    {bound}
    %bounds = vector.broadcast %bound : index to vector<4xindex>
    %inside = arith.cmpi {predicate}, %steps, %bounds : vector<4xindex>
    %masked = arith.select %inside, %x, %zeros : vector<4xi1>, vector<4xf32>
    %used = arith.addf %masked, %masked : vector<4xf32>
  }}
  return
}}
"""
REST = "%bound = affine.min affine_map<(d0) -> (-d0 + 1000, 96)>(%row)"
PARTS = """%rest = affine.min affine_map<(d0) -> (-d0 + 1000, 96)>(%row)
    %bound = affine.apply affine_map<(d0) -> (d0 ceildiv 16)>(%rest)"""


def dropped(bound: str = REST, predicate: str = "slt", otherwise: str = "0.0") -> int:
    text = KERNEL.format(bound=bound, predicate=predicate, otherwise=otherwise)
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        (function,) = collect(module.operation, lambda op: op.name == "func.func")
        count = drop_edge_masks(function)
        (used,) = collect(function, lambda op: op.name == "arith.addf")
        assert isinstance(used.operands[0], ir.BlockArgument) == bool(count)
        return count


@pytest.mark.parametrize("bound", [REST, PARTS])
def test_rows_beyond_the_end(bound: str) -> None:
    assert dropped(bound) == 1


def test_rest_of_a_size_known_at_run_time() -> None:
    bound = "%bound = affine.min affine_map<(d0)[s0] -> (-d0 + s0, 96)>(%row)[%size]"
    assert dropped(bound) == 1


@pytest.mark.parametrize(
    "bound",
    [
        # A causal mask: keys up to the row's number.
        "%bound = affine.apply affine_map<(d0) -> (d0 + 1)>(%row)",
        "%bound = affine.min affine_map<(d0) -> (d0 + 1, 96)>(%row)",
        # Keys, which no workgroup begins at.
        "%bound = affine.min affine_map<(d0) -> (-d0 + 1000, 96)>(%size)",
        "%bound = arith.addi %size, %c1 : index",
        # Fewer than what is left.
        PARTS.replace("ceildiv", "floordiv"),
    ],
)
def test_other_bounds(bound: str) -> None:
    assert dropped(bound) == 0


def test_other_masks() -> None:
    assert dropped(predicate="sge") == 0
    assert dropped(otherwise="0xFF800000") == 0
