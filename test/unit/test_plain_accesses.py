"""attnpass.cpu.plain_accesses: which vector transfers become loads and stores."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from attnpass.cpu.plain_accesses import use_plain_accesses

BUFFER = "memref<1x?x64xf32, strided<[1024, 64, 1], offset: ?>>"
FAR_APART = "memref<1x?x64xf32, strided<[1024, 64, 2]>>"
READ = "%v = vector.transfer_read %b[%i, %i, %i], %z"
ALONG_ROWS = "permutation_map = affine_map<(a, b, c) -> (b)>"

# What reads become.
LOAD, TAIL = ["vector.load"], ["vector.create_mask", "vector.broadcast", "vector.maskedload"]
CASES = {
    "read": (BUFFER, f"{READ} {{in_bounds = [true]}}", LOAD),
    "read_that_may_end_outside": (BUFFER, f"{READ} {{in_bounds = [false]}}", TAIL),
    "masked_read": (BUFFER, f"{READ}, %m {{in_bounds = [true]}}", []),
    "read_along_rows": (BUFFER, f"{READ} {{in_bounds = [true], {ALONG_ROWS}}}", []),
    "read_of_elements_apart": (FAR_APART, f"{READ} {{in_bounds = [false]}}", []),
}


def _accesses(buffer: str, body: str) -> list[str]:
    """The names of the accesses to memory that are left of a function with this body."""
    text = f"""
        func.func @f(%b: {buffer}, %i: index, %m: vector<16xi1>, %w: vector<16xf32>)
            -> vector<16xf32> {{
          %z = arith.constant 0.0 : f32
          {body}
        }}"""
    with ir.Context() as context:
        context.load_all_available_dialects()
        module = ir.Module.parse(text)
        function = module.body.operations[0].operation
        use_plain_accesses(function)
        module.operation.verify()
        names = [op.operation.name for op in function.regions[0].blocks[0].operations]
        return [name for name in names if name.startswith("vector.")]


@pytest.mark.parametrize("name", CASES)
def test_reads(name: str) -> None:
    buffer, read, wanted = CASES[name]
    body = f"{read} : {buffer}, vector<16xf32>\n return %v : vector<16xf32>"
    assert _accesses(buffer, body) == (wanted or ["vector.transfer_read"])


@pytest.mark.parametrize("inside", [True, False])
def test_writes(inside: bool) -> None:
    bounds = f"{{in_bounds = [{str(inside).lower()}]}}"
    write = f"vector.transfer_write %w, %b[%i, %i, %i] {bounds} : vector<16xf32>, {BUFFER}"
    wanted = ["vector.store"] if inside else ["vector.create_mask", "vector.maskedstore"]
    assert _accesses(BUFFER, f"{write}\n return %w : vector<16xf32>") == wanted
