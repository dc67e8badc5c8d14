"""What is read from the text of IREE's attributes, and written into it."""

from __future__ import annotations

import re
from pathlib import Path

import attnpass
from attnpass.ir import printed

# These read what users and other programs write, not what IREE prints.
READS_OTHER_TEXT = {
    "cli/diagnostics.py",
    "driver/modules.py",
    "ir/printed.py",
    "machines/amd/machine.py",
    "machines/nvidia/machine.py",
    "onnx/compiled.py",
    "passes.py",
    "report/groups.py",
    "torch/exported.py",
    "torch/importer.py",
    "tuning/measure.py",
    "verify/inputs.py",
}

TARGET = (
    '#hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = '
    '#iree_gpu.target<arch = "sm_90", features = "+ptx76,+ptx84", wgp = <compute = fp64, '
    "max_workgroup_memory_bytes = 232448>>}>"
)
BASIS = (
    "#iree_gpu.lowering_config<{lane_basis = [[1, 32], [0, 1]], partial_reduction = [0, 64], "
    "subgroup_basis = [[4, 1], [0, 1]], thread = []}>"
)
INFO = (
    "#iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> "
    "workgroup_size = [128, 1, 1] subgroup_size = 32>"
)


def test_targets() -> None:
    assert printed.backends(f"[{TARGET}]") == ["cuda"]
    assert printed.entry(TARGET, "arch") == "sm_90"
    assert printed.entry(TARGET, "cpu", "generic") == "generic"
    assert printed.number(TARGET, "max_workgroup_memory_bytes") == 232448
    assert printed.number(TARGET, "native_vector_size", 8) == 8
    assert printed.ptx_version(TARGET) == 84
    assert printed.ptx_version("+sse2") == 0


def test_lists() -> None:
    assert printed.numbers(BASIS, "subgroup_basis") == [[4, 1], [0, 1]]
    assert printed.numbers(BASIS, "partial_reduction") == [0, 64]
    assert printed.numbers(BASIS, "reduction") == []
    assert printed.lists(BASIS, "thread") == [[]]
    assert printed.numbers(INFO, "workgroup_size") == [128, 1, 1]
    assert printed.array("{loops = array<i64: 4, 8>}", "loops") == [4, 8]


def test_lists_are_written_in_place() -> None:
    halved = printed.with_numbers(BASIS, {"subgroup_basis": lambda basis: [[2, 1], basis[1]]})
    assert halved == BASIS.replace("[[4, 1], [0, 1]]", "[[2, 1], [0, 1]]")
    twice = printed.with_numbers(f"{INFO} {INFO}", {"workgroup_size": lambda _: [64, 1, 1]})
    assert twice.count("[64, 1, 1]") == 2
    assert printed.with_numbers(INFO, {"size": lambda _: [0]}) == INFO


def test_pipelines() -> None:
    assert printed.pipeline(INFO) == "#iree_gpu.pipeline<VectorDistribute>"
    lowered = printed.with_pipeline(INFO)
    assert printed.pipeline(lowered) == ""
    assert printed.says_lowered(lowered) and not printed.says_lowered(INFO)


def test_declarations() -> None:
    told = "func @main(%v: tensor<4x8xf32>, %vv: tensor<4x8xf32>)"
    wanted = "func @main(%v: tensor<8x4xf32>, %vv: tensor<4x8xf32>)"
    assert printed.redeclared(told, "%v", "tensor<4x8xf32>", "tensor<8x4xf32>") == wanted


def test_no_other_module_reads_what_iree_prints() -> None:
    root = Path(attnpass.__file__).parent
    files = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}
    assert {name for name, text in files.items() if "import re\n" in text} == READS_OTHER_TEXT
    looks_into = re.compile(
        r"\bin str\((?!error|self)|"
        r"\bstr\((?!error)[^()]*\)\.(replace|r?partition|split|startswith)\("
    )
    assert {name for name, text in files.items() if looks_into.search(text)} == {"ir/printed.py"}
