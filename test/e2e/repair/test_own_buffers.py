"""Mutable globals that begin equal, as caches of K and V, are written each for itself."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import at_levels, compile_text, pairwise, run_module

from attnpass import Report
from bench.device import load, to_iree

# Globals with their types; two of other types begin with the same bytes.
NAMES = ("ck", "cv", "other")
KINDS = {"f32": np.float32, "f16": np.float16, "i8": np.int8}


def _text(kinds: tuple[str, ...]) -> str:
    """`step` writes a row of each global and returns all of them."""
    zero = {"i8": "0"}
    text, body, results = "", "", []
    for at, (name, kind) in enumerate(zip(NAMES, kinds, strict=False)):
        whole, row = f"tensor<4x2x{kind}>", f"tensor<1x2x{kind}>"
        text += f"util.global private mutable @{name} = dense<{zero.get(kind, '0.0')}> : {whole}\n"
        body += f"""
  %old{at} = util.global.load @{name} : {whole}
  %new{at} = tensor.insert_slice %row{at} into %old{at}[%i, 0] [1, 2] [1, 1] : {row} into {whole}
  util.global.store %new{at}, @{name} : {whole}"""
        results.append((f"%new{at}", whole, f"%row{at}: {row}"))
    values, types, rows = (", ".join(words) for words in zip(*results, strict=True))
    return f"""{text}
func.func @step(%p: tensor<i32>, {rows}) -> ({types}) {{
  %at = tensor.extract %p[] : tensor<i32>
  %i = arith.index_cast %at : i32 to index{body}
  return {values} : {types}
}}
"""


@pytest.mark.parametrize(
    ("kinds", "level"),
    [(("f32", "f32"), "O0"), (("f16", "f16", "i8"), "O2"), (("f32", "f32", "f32"), "O2")],
)
def test_each_global_keeps_what_is_stored_in_it(kinds: tuple[str, ...], level: str) -> None:
    report = Report()
    flags = [f"--iree-opt-level={level}"]
    program = compile_text(_text(kinds), mode="cost", report=report, flags=flags)
    assert any(one.details.get("globals") == len(kinds) for one in report.found("repaired"))
    rows = [np.full((1, 2), at + 1, KINDS[kind]) for at, kind in enumerate(kinds)]
    results = run_module(program, [np.array(1, np.int32), *rows], "step")
    for at, result in enumerate(results):
        wanted = np.zeros((4, 2))
        wanted[1] = at + 1
        assert np.array_equal(result.astype(float), wanted)


@pytest.mark.parametrize(("size", "level"), at_levels([("4",), ("?",)], ("O0", "O2")))
def test_an_argument_that_is_returned_keeps_its_numbers(size: str, level: str) -> None:
    cache = f"tensor<{size}x2xf32>"
    program = compile_text(
        f"""
func.func @main(%cache: {cache}, %new: tensor<2x2xf32>, %at: tensor<2x1xi32>)
    -> ({cache}, {cache}) {{
  %next = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
      ins(%new, %at : tensor<2x2xf32>, tensor<2x1xi32>) outs(%cache : {cache}) {{
    ^bb0(%a: f32, %b: f32):
      iree_linalg_ext.yield %a : f32
  }} -> {cache}
  return %cache, %next : {cache}, {cache}
}}
""",
        mode="cost",
        flags=[f"--iree-opt-level={level}"],
    )
    old, new = np.zeros((4, 2), np.float32), np.ones((2, 2), np.float32)
    kept, written = run_module(program, [old, new, np.array([[3], [1]], np.int32)])
    assert not kept.any()
    assert np.array_equal(written, np.array([[0, 0], [1, 1], [0, 0], [1, 1]]))


def test_a_global_begins_with_its_numbers_where_only_constants_are_stored() -> None:
    program = compile_text(
        """
util.global private mutable @state = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %was = util.global.load @state : tensor<4xf32>
  %next = arith.constant dense<[5.0, 6.0, 7.0, 8.0]> : tensor<4xf32>
  util.global.store %next, @state : tensor<4xf32>
  %sum = arith.addf %x, %was : tensor<4xf32>
  return %sum : tensor<4xf32>
}
""",
        mode="cost",
    )
    from iree import runtime

    config = runtime.Config("local-sync")
    main = load(config, program)["main"]
    for wanted in ([1, 2, 3, 4], [5, 6, 7, 8], [5, 6, 7, 8]):
        result = main(to_iree(config.device, np.zeros(4, np.float32)))
        assert np.array_equal(result.to_host(), wanted)


def test_globals_keep_what_is_stored_in_them_of_others_and_within_ops() -> None:
    """`last` gets what `now` held, `kept` what it held itself, and `first` a number in a branch,
    where `front` is read that is stored in front of it, and something is stored in `twice` twice.
    """
    program = compile_text(
        """
util.global private mutable @now = dense<[1.0, 2.0]> : tensor<2xf32>
util.global private mutable @last = dense<[3.0, 4.0]> : tensor<2xf32>
util.global private mutable @kept = dense<[5.0, 6.0]> : tensor<2xf32>
util.global private mutable @first = dense<7.0> : tensor<2xf32>
util.global private mutable @front = dense<0.0> : tensor<2xf32>
util.global private mutable @twice = dense<0.0> : tensor<2xf32>
func.func @main(%x: tensor<2xf32>, %is_first: i1) -> tensor<12xf32> {
  util.global.store %x, @front : tensor<2xf32>
  %now = util.global.load @now : tensor<2xf32>
  %last = util.global.load @last : tensor<2xf32>
  util.global.store %now, @last : tensor<2xf32>
  %next = tensor.insert_slice %x into %now[0] [2] [1] : tensor<2xf32> into tensor<2xf32>
  util.global.store %next, @now : tensor<2xf32>
  %kept = util.global.load @kept : tensor<2xf32>
  %seen = scf.if %is_first -> tensor<2xf32> {
    util.global.store %x, @twice : tensor<2xf32>
    util.global.store %now, @twice : tensor<2xf32>
    %front = util.global.load @front : tensor<2xf32>
    util.global.store %x, @kept : tensor<2xf32>
    %all = arith.constant dense<[[8.0, 9.0], [8.5, 9.5]]> : tensor<2x2xf32>
    %some = tensor.extract_slice %all[1, 0] [1, 2] [1, 1] : tensor<2x2xf32> to tensor<2xf32>
    util.global.store %some, @first : tensor<2xf32>
    scf.yield %front : tensor<2xf32>
  } else {
    scf.yield %x : tensor<2xf32>
  }
  %during = util.global.load @kept : tensor<2xf32>
  util.global.store %kept, @kept : tensor<2xf32>
  %first = util.global.load @first : tensor<2xf32>
  %twice = util.global.load @twice : tensor<2xf32>
  %r = tensor.concat dim(0) %last, %kept, %during, %first, %seen, %twice
      : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
      -> tensor<12xf32>
  return %r : tensor<12xf32>
}
""",
        mode="cost",
    )
    from iree import runtime

    config = runtime.Config("local-sync")
    main = load(config, program)["main"]
    first, twice = [7, 7], [0, 0]
    for last, x, branch in (([3, 4], 10, False), ([1, 2], 20, True), ([10, 10], 30, False)):
        given = to_iree(config.device, np.full(2, x, np.float32))
        first = [8.5, 9.5] if branch else first
        twice = [10, 10] if branch else twice
        wanted = [*last, 5, 6, *([x, x] if branch else [5, 6]), *first, x, x, *twice]
        assert np.array_equal(main(given, int(branch)).to_host(), wanted)


_LOOPS = {
    "for": """%r = scf.for %i = %c0 to %m step %c1 iter_args(%a = %was) -> (tensor<2xf32>) {
    util.global.store %x, @state : tensor<2xf32>
    util.global.store %a, @state : tensor<2xf32>
    scf.yield %a : tensor<2xf32>
  }""",
    "while": """%w:2 = scf.while (%i = %c0, %a = %was) : (index, tensor<2xf32>)
      -> (index, tensor<2xf32>) {
    %q = arith.cmpi slt, %i, %m : index
    scf.condition(%q) %i, %a : index, tensor<2xf32>
  } do {
  ^bb0(%i: index, %a: tensor<2xf32>):
    util.global.store %x, @state : tensor<2xf32>
    util.global.store %a, @state : tensor<2xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %a : index, tensor<2xf32>
  }""",
}


@pytest.mark.parametrize(("loop", "level"), at_levels(((name,) for name in _LOOPS), ("O0", "O2")))
def test_a_loop_stores_back_what_it_carries(loop: str, level: str) -> None:
    """And a constant is stored and returned; what is stored in a function that is not called is no
    store."""
    program = compile_text(
        f"""
util.global private mutable @state = dense<[1.0, 2.0]> : tensor<2xf32>
util.global private mutable @constant = dense<[3.0, 4.0]> : tensor<2xf32>
func.func private @uncalled(%x: tensor<2xf32>) {{
  util.global.store %x, @constant : tensor<2xf32>
  return
}}
func.func @main(%x: tensor<2xf32>, %n: i32) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = arith.index_cast %n : i32 to index
  %was = util.global.load @state : tensor<2xf32>
  {_LOOPS[loop]}
  %state = util.global.load @state : tensor<2xf32>
  %before = util.global.load @constant : tensor<2xf32>
  %new = arith.constant dense<[5.0, 6.0]> : tensor<2xf32>
  util.global.store %new, @constant : tensor<2xf32>
  return %state, %before, %new : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}}
""",
        mode="cost",
        report=(report := Report()),
        flags=[f"--iree-opt-level={level}"],
    )
    assert not report.found("fallback")
    from iree import runtime

    config = runtime.Config("local-sync")
    main = load(config, program)["main"]
    for count, constant in ((0, [3, 4]), (2, [5, 6]), (1, [5, 6])):
        results = main(to_iree(config.device, np.full(2, 9, np.float32)), count)
        for result, wanted in zip(results, ([1, 2], constant, [5, 6]), strict=True):
            assert np.array_equal(result.to_host(), wanted)


_WRITES = {
    "slice": """tensor.insert_slice %row into %base[%i, 0] [1, 8] [1, 1]
        : tensor<1x8xf32> into tensor<4x8xf32>""",
    "scatter": """iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
        ins(%row, %at : tensor<1x8xf32>, tensor<1x1xi32>) outs(%base : tensor<4x8xf32>) {
      ^bb0(%new: f32, %was: f32):
        %both = arith.addf %new, %was : f32
        iree_linalg_ext.yield %both : f32
      } -> tensor<4x8xf32>""",
}
_BASES = {
    "argument": "",
    "computed": """%empty = tensor.empty() : tensor<4x8xf32>
  %base = linalg.transpose ins(%given : tensor<8x4xf32>) outs(%empty : tensor<4x8xf32>)
      permutation = [1, 0]""",
}


@pytest.mark.parametrize(("write", "base", "level"), pairwise(_WRITES, _BASES, ["O0", "O2"]))
def test_a_loop_writes_to_what_stood_outside_anew_each_time(
    write: str, base: str, level: str
) -> None:
    """Each time a row of the result so far is added to, or put over, a row of the same start."""
    given = "%base: tensor<4x8xf32>" if base == "argument" else "%given: tensor<8x4xf32>"
    text = f"""
func.func @main({given}, %first: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  {_BASES[base]}
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%old = %first) -> (tensor<4x8xf32>) {{
    %row = tensor.extract_slice %old[%i, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
    %place = arith.index_cast %i : index to i32
    %at = tensor.from_elements %place : tensor<1x1xi32>
    %new = {_WRITES[write]}
    scf.yield %new : tensor<4x8xf32>
  }}
  return %r : tensor<4x8xf32>
}}
"""
    random = np.random.default_rng(0)
    start, state = (random.standard_normal((4, 8)).astype(np.float32) for _ in range(2))
    start_given = start if base == "argument" else np.ascontiguousarray(start.T)
    report = Report()
    program = compile_text(text, mode="cost", report=report, flags=[f"--iree-opt-level={level}"])
    result = run_module(program, [start_given, state])
    for row in range(3):
        after = start.copy()
        after[row] = state[row] + (after[row] if write == "scatter" else 0)
        state = after
    assert np.allclose(result, state, atol=1e-6)
    assert any(record.op.kind == "loop" for record in report.found("repaired"))


@pytest.mark.parametrize(("written", "level"), at_levels([(False,), (True,)], ("O0", "O2")))
def test_globals_stored_in_both_branches(written: bool, level: str) -> None:
    """One branch stores alike in two globals, the other what stands outside in one of them."""
    made = "%new = arith.addf %half, %half : tensor<3xf32>"
    if written:
        made = """%part = tensor.extract_slice %x[0] [1] [1] : tensor<3xf32> to tensor<1xf32>
    %new = tensor.insert_slice %part into %half[2] [1] [1] : tensor<1xf32> into tensor<3xf32>"""
    text = f"""
util.global private mutable @one = dense<[-2.0, -2.0, -4.0]> : tensor<3xf32>
util.global private mutable @two = dense<[-3.0, 4.0, 0.0]> : tensor<3xf32>
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<3xf32>) {{
  %factor = arith.constant dense<0.5> : tensor<3xf32>
  %half = arith.mulf %x, %factor : tensor<3xf32>
  %zero = arith.constant 0 : i32
  %count = tensor.extract %n[] : tensor<i32>
  %c = arith.cmpi slt, %count, %zero : i32
  scf.if %c {{
    {made}
    util.global.store %new, @two : tensor<3xf32>
    util.global.store %new, @one : tensor<3xf32>
  }} else {{
    util.global.store %half, @one : tensor<3xf32>
  }}
  %one = util.global.load @one : tensor<3xf32>
  %two = util.global.load @two : tensor<3xf32>
  return %one, %two : tensor<3xf32>, tensor<3xf32>
}}
"""
    report = Report()
    flags = [f"--iree-opt-level={level}"]
    program = compile_text(text, mode="cost", report=report, flags=flags)
    assert not report.found("fallback")
    x = np.array([1, 2, 3], np.float32)
    new = np.array([0.5, 1, 1]) if written else x
    start = np.array([-3, 4, 0], np.float32)
    for count, wanted in ((-1, (new, new)), (1, (x / 2, start))):
        result = run_module(program, [x, np.array(count, np.int32)])
        assert all(np.array_equal(a, b) for a, b in zip(result, wanted, strict=True))


@pytest.mark.parametrize(("size", "level"), at_levels([("4",), ("?",)], ("O0", "O2")))
def test_what_a_caller_gives_is_not_sorted(size: str, level: str) -> None:
    from iree import runtime

    kind = f"tensor<{size}x16xf32>"
    text = f"""
func.func @main(%x: {kind}) -> {kind} {{
  %r = iree_linalg_ext.sort dimension(1) outs(%x : {kind}) {{
  ^bb0(%a: f32, %b: f32):
    %first = arith.cmpf olt, %a, %b : f32
    iree_linalg_ext.yield %first : i1
  }} -> {kind}
  return %r : {kind}
}}
"""
    program = compile_text(text, mode="cost", flags=[f"--iree-opt-level={level}"])
    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, program))
    numbers = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    given = runtime.asdevicearray(config.device, numbers)
    result = context.modules["module"]["main"](given)
    assert np.array_equal(result.to_host(), np.sort(numbers, 1))
    assert np.array_equal(given.to_host(), numbers)


@pytest.mark.parametrize(("kind", "level"), at_levels([("computed",), ("argument",)]))
def test_what_a_branch_hands_on_is_written_nowhere_else(kind: str, level: str) -> None:
    """Behind a branch a row is put over what it hands on: others read that, too, or it is handed on
    twice, by one case of several."""
    made = (
        "" if kind == "argument" else "%one = arith.addf %x, %y : T\n  %two = arith.mulf %x, %y : T"
    )
    text = f"""
func.func @main(%x: T, %y: T, %row: tensor<1x8xf32>, %n: tensor<i32>) -> (T, T, T, T) {{
  %c1 = arith.constant 1 : index
  %count = tensor.extract %n[] : tensor<i32>
  %case = arith.index_cast %count : i32 to index
  {made}
  %r:2 = scf.index_switch %case -> T, T
  case 0 {{
    scf.yield %one, %two : T, T
  }}
  case 3 {{
    %new = tensor.insert_slice %row into %two[2, 0] [1, 8] [1, 1] : tensor<1x8xf32> into T
    scf.yield %new, %new : T, T
  }}
  default {{
    scf.yield %two, %two : T, T
  }}
  %w = tensor.insert_slice %row into %r#0[%c1, 0] [1, 8] [1, 1] : tensor<1x8xf32> into T
  return %w, %r#1, %one, %two : T, T, T, T
}}
"""
    text = text.replace("T", "tensor<4x8xf32>").replace("tensor<4x8xf32>ensor", "tensor")
    if kind == "argument":
        text = text.replace("%one", "%x").replace("%two", "%y")
    report = Report()
    program = compile_text(text, mode="cost", report=report, flags=[f"--iree-opt-level={level}"])
    assert not report.found("fallback")
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((4, 8)).astype(np.float32) for _ in range(2))
    row = random.standard_normal((1, 8)).astype(np.float32)
    one, two = (x, y) if kind == "argument" else (x + y, x * y)
    for count in (0, 3, 1):
        first, second = {0: (one, two), 1: (two, two)}.get(count, (two.copy(), None))
        if second is None:
            first[2], second = row, first
        written = first.copy()
        written[1] = row
        results = run_module(program, [x, y, row, np.array(count, np.int32)])
        for result, wanted in zip(results, (written, second, one, two), strict=True):
            assert np.array_equal(result, wanted)


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_globals_beside_constants_and_behind_what_the_host_reads(level: str) -> None:
    """A loop hands on a constant, or what a global holds; it stores as often as a tensor says, and
    what it stored is read behind it."""
    text = """
util.global private mutable @state = dense<[1.0, 2.0]> : tensor<2xf32>
func.func @main(%x: tensor<2xf32>, %n: tensor<i32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = tensor.extract %n[] : tensor<i32>
  %most = arith.index_cast %count : i32 to index
  %was = util.global.load @state : tensor<2xf32>
  %numbers = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  util.global.store %x, @state : tensor<2xf32>
  %r:2 = scf.for %i = %c0 to %most step %c1 iter_args(%a = %was, %b = %x)
      -> (tensor<2xf32>, tensor<2xf32>) {
    %sum = arith.addf %b, %x : tensor<2xf32>
    util.global.store %sum, @state : tensor<2xf32>
    scf.yield %numbers, %sum : tensor<2xf32>, tensor<2xf32>
  }
  %now = util.global.load @state : tensor<2xf32>
  return %r#0, %r#1, %now : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
"""
    report = Report()
    program = compile_text(text, mode="cost", report=report, flags=[f"--iree-opt-level={level}"])
    assert not report.found("fallback")
    x = np.float32([5, 6])
    for count in (0, 1, 3):
        results = run_module(program, [x, np.array(count, np.int32)])
        state = x * (count + 1)
        for result, wanted in zip(
            results, ([3, 4] if count else [1, 2], state, state), strict=True
        ):
            assert np.array_equal(result, wanted)


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_a_global_of_unknown_size_in_loops(level: str) -> None:
    """What a loop carries is stored in a global, whose size is another in each call."""
    text = """
util.global private mutable @rows : tensor<?x2xf32>
util.initializer {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %empty = tensor.empty(%c1) : tensor<?x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x2xf32>) -> tensor<?x2xf32>
  util.global.store %zeros, @rows : tensor<?x2xf32>
  util.return
}
func.func @main(%x: tensor<?x2xf32>, %row: tensor<1x2xf32>, %n: tensor<i32>)
    -> (tensor<?x2xf32>, tensor<?x2xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = tensor.extract %n[] : tensor<i32>
  %most = arith.index_cast %count : i32 to index
  %was = util.global.load @rows : tensor<?x2xf32>
  %r = scf.for %i = %c0 to %most step %c1 iter_args(%a = %x) -> tensor<?x2xf32> {
    util.global.store %a, @rows : tensor<?x2xf32>
    %next = tensor.insert_slice %row into %a[%i, 0] [1, 2] [1, 1]
        : tensor<1x2xf32> into tensor<?x2xf32>
    scf.yield %next : tensor<?x2xf32>
  }
  return %was, %r : tensor<?x2xf32>, tensor<?x2xf32>
}
"""
    report = Report()
    program = compile_text(text, mode="cost", report=report, flags=[f"--iree-opt-level={level}"])
    assert not report.found("fallback")
    from iree import runtime

    config = runtime.Config("local-sync")
    main = load(config, program)["main"]
    state, row = np.zeros((1, 2), np.float32), np.full((1, 2), 9, np.float32)
    for size, count in ((3, 2), (4, 0), (2, 1), (5, 3)):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        given = [to_iree(config.device, each) for each in (x, row, np.array(count, np.int32))]
        was, result = (np.array(each.to_host()) for each in main(*given))
        assert np.array_equal(was, state)
        for step in range(count):
            state, x = x, np.concatenate([x[:step], row, x[step + 1 :]])
        assert np.array_equal(result, x)
