"""What passes that walk a graph from each of its ops ask of an op, they ask a few times: a program
of a thousand ops compiles."""

from __future__ import annotations

from unittest import mock

import pytest
from iree.compiler import ir

import attnpass
from attnpass.repair import own_buffers, store_sums

ROW = "tensor<8x8xf32>"
MAP = "affine_map<(i, j) -> (i, j)>"
CPU = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">'


def sums(count: int) -> str:
    """Each op adds up the two before it; a sum of rows reads the last."""
    lines = [
        f"""%{i} = linalg.generic {{indexing_maps = [{MAP}, {MAP}, {MAP}],
            iterator_types = ["parallel", "parallel"]}}
            ins(%{i - 1}, %{i - 2} : {ROW}, {ROW}) outs(%e : {ROW}) {{
          ^bb0(%x: f32, %y: f32, %o: f32):
            %s = arith.addf %x, %y : f32
            linalg.yield %s : f32
          }} -> {ROW}"""
        for i in range(2, count)
    ]
    last = f"""%sum = linalg.generic {{indexing_maps = [{MAP}, affine_map<(i, j) -> (i)>],
            iterator_types = ["parallel", "reduction"]}}
            ins(%{count - 1} : {ROW}) outs(%r : tensor<8xf32>) {{
          ^bb0(%x: f32, %o: f32):
            %s = arith.addf %x, %o : f32
            linalg.yield %s : f32
          }} -> tensor<8xf32>"""
    return "\n".join(["%r = tensor.empty() : tensor<8xf32>", *lines, last])


def copies(count: int) -> str:
    """Each op writes two rows of what the op before it made to what the one before that made."""
    lines = [
        f"""%p{i} = tensor.extract_slice %{i - 1}[{i % 4}, 0] [2, 8] [1, 1]
            : {ROW} to tensor<2x8xf32>
        %{i} = tensor.insert_slice %p{i} into %{i - 2}[{i % 6}, 0] [2, 8] [1, 1]
            : tensor<2x8xf32> into {ROW}"""
        for i in range(2, count)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("graph", "name", "asked"),
    [
        (sums, "attn-store-sums", (store_sums, "_makers")),
        (copies, "attn-own-buffers", (own_buffers, "_tensors_read")),
    ],
)
def test_ops_are_asked_few_times(graph, name, asked) -> None:
    home, question = asked
    calls = []
    for count in (50, 200):
        body = f"%e = tensor.empty() : {ROW}\n{graph(count)}\nreturn %{count - 1} : {ROW}"
        text = f"func.func @main(%0: {ROW}, %1: {ROW}) -> {ROW} {{\n{body}\n}}"
        targets = f'hal.device.targets = [#hal.device.target<"local", [{CPU}]> : !hal.device]'
        with ir.Context() as context, ir.Location.unknown():
            context.load_all_available_dialects()
            module = ir.Module.parse(f"module attributes {{{targets}}} {{\n{text}\n}}")
            with mock.patch.object(home, question, wraps=getattr(home, question)) as spy:
                attnpass.run(module, name)
            calls.append(spy.call_count)
    assert 0 < calls[1] < 5 * calls[0]
