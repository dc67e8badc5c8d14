"""attn-split-k on llvm-cpu against numpy: lengths, masks, orders of dims, types.

Cases of one pipeline are functions of one module: a compile for each takes several times as long.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np
import pytest
from helpers import renamed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from iree import runtime
from iree.compiler.api import Output, Session, Source

import attnpass
from bench.device import several

NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "i1": np.bool_,
}
IDENTITY = "iree_linalg_ext.yield %s : f32"


@dataclass(frozen=True)
class Case:
    """One attention. Letters are iteration dims: d is k1, k (and j) k2, n V's head dim; any
    other letter of K or V is a batch dim and the rest of Q's are rows. `dynamic` letters
    have `?` in the types."""

    sizes: dict[str, int]
    query: str = "bmd"
    key: str = "bkd"
    value: str = "bkn"
    mask: str = ""
    output: str = "bmn"
    dims: str = "bmndk"
    dynamic: str = ""
    kind: str = "attention"
    types: dict[str, str] = field(default_factory=dict)
    score: str = IDENTITY
    tolerance: float = 4e-6

    def type_of(self, name: str) -> str:
        if name == "mask":
            return self.types.get("mask", "i1")
        return self.types.get(name, self.types.get("all", "f32"))

    @property
    def rows(self) -> str:
        return "".join(c for c in self.output if c in self.query)

    def tensor(self, letters: str, element: str) -> str:
        sizes = ["?" if c in self.dynamic else str(self.sizes[c]) for c in letters]
        return f"tensor<{'x'.join([*sizes, element])}>"

    def mlir(self) -> str:
        names = ["query", "key", "value"] + (["mask"] if self.mask else [])
        letters = {"query": self.query, "key": self.key, "value": self.value, "mask": self.mask}
        types = {name: self.tensor(letters[name], self.type_of(name)) for name in names}
        scale = self.type_of("scale")
        ins = [*names[:3], "scale", *names[3:]]
        types["scale"] = scale
        output = self.tensor(self.output, self.type_of("output"))
        outs = {"out": (self.output, output)}
        if self.kind == "online_attention":
            row = self.tensor(self.rows, "f32")
            outs |= {"max": (self.rows, row), "sum": (self.rows, row)}
        maps = [
            f"affine_map<({', '.join(self.dims)}) -> ({', '.join(text)})>"
            for text in [*(letters.get(name, "") for name in ins), *(t for t, _ in outs.values())]
        ]
        arguments = [f"%{name}: {types[name]}" for name in names]
        arguments += [f"%{name}: {kind}" for name, (_, kind) in outs.items()]
        results = ", ".join(kind for _, kind in outs.values())
        values = ", ".join(f"%r#{i}" for i in range(len(outs)))
        return f"""
func.func @main({", ".join(arguments)}) -> ({results}) {{
  %scale = arith.constant 0.25 : {scale}
  %r:{len(outs)} = iree_linalg_ext.{self.kind} <indexing_maps = [{", ".join(maps)}]>
    ins({", ".join(f"%{n}" for n in ins)} : {", ".join(types[n] for n in ins)})
    outs({", ".join(f"%{n}" for n in outs)} : {results}) {{
  ^bb0(%s: f32):
    {self.score}
  }} -> {results}
  return {values} : {results}
}}
"""

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        letters = {"query": self.query, "key": self.key, "value": self.value}
        made = {
            name: rng.standard_normal([self.sizes[c] for c in text]).astype(
                NUMPY[self.type_of(name)]
            )
            for name, text in letters.items()
        }
        if self.mask:
            keep = rng.random([self.sizes[c] for c in self.mask]) < 0.7
            # Every row sees the first key, so that no row is 0/0.
            keep[tuple(0 if c in "kj" else slice(None) for c in self.mask)] = True
            kind = NUMPY[self.type_of("mask")]
            additive = np.where(keep, rng.standard_normal(keep.shape), -np.inf)
            made["mask"] = keep if kind is np.bool_ else additive.astype(kind)
        output = np.zeros([self.sizes[c] for c in self.output], NUMPY[self.type_of("output")])
        made["out"] = output
        if self.kind == "online_attention":
            rows = [self.sizes[c] for c in self.rows]
            made["out"] = rng.standard_normal(output.shape).astype(output.dtype)
            made["max"] = rng.standard_normal(rows).astype(np.float32)
            made["sum"] = rng.random(rows).astype(np.float32) + 0.5
        return made

    def reference(self, data: dict[str, np.ndarray], score=lambda s: s) -> list[np.ndarray]:
        """The results in float64; max and sum as IREE defines them, in base 2."""
        log2e = np.log2(np.e)
        batch = [c for c in self.output if c in self.key or (c in self.query and c in self.value)]
        keys = [c for c in self.value if c not in self.output]
        rows = [c for c in self.rows if c not in batch]
        order = "".join([*batch, *rows, *keys])
        wide = {name: array.astype(np.float64) for name, array in data.items()}
        scores = np.einsum(f"{self.query},{self.key}->{order}", wide["query"], wide["key"])
        scores = score(scores * 0.25) * log2e
        if self.mask:
            shape = "".join(c for c in order if c in self.mask)
            mask = data["mask"]
            if mask.dtype == np.bool_:
                mask = np.where(mask, 0.0, -np.inf)
            mask = np.einsum(f"{self.mask}->{shape}", mask.astype(np.float64))
            index = tuple(slice(None) if c in shape else None for c in order)
            scores = scores + mask[index] * log2e
        axes = tuple(range(len(order) - len(keys), len(order)))
        first = (
            np.einsum(f"{self.rows}->{order[: -len(keys)]}", wide["max"])
            if ("max" in wide)
            else None
        )
        top = scores.max(axes) if scores.size else np.full(scores.shape[: -len(keys)], -np.inf)
        top = top if first is None else np.maximum(top, first)
        weights = np.exp2(scores - np.expand_dims(top, axes))
        total = weights.sum(axes)
        row = order[: -len(keys)]
        result = np.einsum(f"{order},{self.value}->{self.output}", weights, wide["value"])
        if first is None:
            return [result / np.einsum(f"{row}->{self.rows}", total)[self._spread]]
        old = np.einsum(f"{row}->{self.rows}", np.exp2(first - top))
        result = result + wide["out"] * old[self._spread]
        total = np.einsum(f"{row}->{self.rows}", total) + wide["sum"] * old
        return [result, np.einsum(f"{row}->{self.rows}", top), total]

    @property
    def _spread(self) -> tuple[slice | None, ...]:
        """Index that lines an array over `rows` up with the output."""
        return tuple(slice(None) if c in self.rows else None for c in self.output)


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session()
    made.set_flags(
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=generic",
    )
    return made


Function = Callable[..., object]


def compiled(
    session: Session, texts: list[str], pipeline: str
) -> tuple[list[Function], attnpass.Report]:
    """The functions @main of `texts`, compiled as one module with `pipeline`, and the report."""
    text = "".join(renamed(one, f"case{number}") for number, one in enumerate(texts))
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    assert invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0"))
    hook = attnpass.pipeline_hook(pipeline)
    output = Output.open_membuffer()
    hook.execute(invocation).output_vm_bytecode(output)
    config = runtime.Config("local-task")
    context = runtime.SystemContext(config=config)
    binary = bytes(output.map_memory())
    context.add_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, binary))
    module = context.modules.module
    return [module[f"case{number}"] for number in range(len(texts))], hook.report


def run(function: Function, data: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(result).astype(np.float64) for result in several(function(*data.values()))]


def check(
    session: Session,
    *cases: Case,
    pipeline: str = "attn-split-k{splits=4}",
    decision: str = "split",
    score=lambda s: s,
) -> attnpass.Report:
    functions, report = compiled(session, [case.mlir() for case in cases], pipeline)
    decided = [[one.decision for one in found.operands] for found in report.attentions]
    assert decided == [[decision]] * len(cases)
    for case, function in zip(cases, functions, strict=True):
        data = case.inputs()
        for mine, right in zip(run(function, data), case.reference(data, score), strict=True):
            compare(mine, right, case)
    return report


def compare(mine: np.ndarray, right: np.ndarray, case: Case) -> None:
    np.testing.assert_allclose(
        mine, right, rtol=case.tolerance, atol=case.tolerance, err_msg=str(case)
    )


SMALL = {"b": 2, "m": 1, "n": 16, "d": 8, "k": 96}


def test_static_lengths(session):
    forms = itertools.product([7, 1000, 4097], ["", "bmk"])
    check(session, *(Case({**SMALL, "k": length}, mask=mask) for length, mask in forms))


def test_chunks_are_vector_loops(session):
    """What attn-compile makes of a long cache where cores outnumber heads."""
    cases = [
        Case({"b": 1, "m": rows, "n": 64, "d": 64, "k": 16384}, mask=mask)
        for rows, mask in itertools.product([1, 3], ["", "bmk"])
    ]
    pipeline = "attn-split-k{configured=true splits=4},attn-configure,attn-vectorize"
    report = check(session, *cases, pipeline=pipeline)
    loops = {record.op.function.partition("_dispatch_")[0] for record in report.found("loops")}
    assert loops == {f"case{number}" for number in range(len(cases))}


def test_loops_over_chunks_without_a_key(session):
    visible = np.zeros([2, 3, 1024], bool)
    visible[0, 0, :5] = visible[0, 1, -1] = visible[0, 2, 300] = True
    visible[1, :2] = visible[1, 2, ::200] = True
    sizes = {"b": 2, "m": 3, "n": 16, "d": 16, "k": 1024}
    cases = [Case(sizes, mask="bmk", types={"mask": kind}) for kind in ("i1", "f32")]
    pipeline = "attn-split-k{splits=8},attn-configure,attn-vectorize"
    functions, _ = compiled(session, [case.mlir() for case in cases], pipeline)
    for case, function in zip(cases, functions, strict=True):
        data = case.inputs()
        data["mask"] = masked(visible, case)
        compare(run(function, data)[0], case.reference(data)[0], case)


def masked(visible: np.ndarray, case: Case) -> np.ndarray:
    """The mask of a case that shows these keys."""
    return visible if case.type_of("mask") == "i1" else np.where(visible, 0, -np.inf).astype("f4")


def test_too_few_keys_stay_whole(session):
    one_key = Case({**SMALL, "k": 1})
    # One head with one row has no tail.
    prime = Case({"b": 1, "m": 1, "n": 8, "d": 8, "k": 53}, tolerance=2e-6)
    check(session, one_key, prime, decision="kept")


@pytest.mark.parametrize("pipeline", ["attn-split-k{splits=4}", "attn-split-k{target=gfx1100}"])
def test_dynamic_lengths(session, pipeline):
    cases = [Case(SMALL, mask=mask, dynamic="k") for mask in ("", "bmk")]
    functions, report = compiled(session, [case.mlir() for case in cases], pipeline)
    assert [found.operands[0].decision for found in report.attentions] == ["split"] * 2
    for case, function in zip(cases, functions, strict=True):
        for length in (1, 3, 7, 256, 1000, 4097):
            long = replace(case, sizes={**SMALL, "k": length})
            data = long.inputs()
            compare(run(function, data)[0], long.reference(data)[0], long)


def test_masked_chunks(session):
    """Chunks without a visible key add nothing; a row without any is 0 (IREE, unsplit: NaN)."""
    cases = [
        Case({**SMALL, "m": 2, "k": length}, mask="bmk", types={"mask": kind}, tolerance=2e-6)
        for length, kind in itertools.product([512, 500], ["i1", "f32"])
    ]
    texts = [case.mlir() for case in cases]
    split, _ = compiled(session, texts, "attn-split-k{splits=8}")
    whole, _ = compiled(session, texts, "attn-split-k{splits=1}")
    for number, case in enumerate(cases):
        visible = np.zeros([2, 2, case.sizes["k"]], bool)
        visible[0, 0, :5] = True
        visible[0, 1, -1] = True
        visible[1, 0, 130] = True
        data = {**case.inputs(), "mask": masked(visible, case)}
        (mine,) = run(split[number], data)
        hidden = ~visible.any(-1)
        with np.errstate(invalid="ignore"):
            (right,) = case.reference(data)
        np.testing.assert_array_equal(mine[hidden], 0)
        compare(mine[~hidden], right[~hidden], case)
        assert np.isnan(run(whole[number], data)[0][hidden]).all()


def test_online_attention_goes_on_from_its_state(session):
    online = Case({**SMALL, "k": 512}, kind="online_attention", mask="k")
    odd = replace(online, sizes={**SMALL, "k": 509})
    check(session, online, odd, Case({**SMALL, "k": 300}, kind=online.kind, dynamic="k"))


def test_narrow_types(session):
    narrow = {
        2e-3: {"all": "f16"},
        1.6e-2: {"all": "bf16"},
        8e-2: {"all": "f8E4M3FN", "scale": "f32", "output": "f32"},
    }
    cases = [
        Case({**SMALL, "k": length}, types=types, tolerance=tolerance)
        for (tolerance, types), length in itertools.product(narrow.items(), [512, 509])
    ]
    check(session, *cases)


ORDERS = {
    "heads inside": dict(
        sizes={"b": 2, "h": 3, "m": 4, "n": 8, "d": 8, "k": 50},
        query="bmhd",
        key="bkhd",
        value="khbn",
        mask="kbm",
        output="mbhn",
        dims="bhmndk",
    ),
    "group as rows": dict(
        sizes={"b": 2, "g": 4, "m": 2, "n": 8, "d": 8, "k": 50},
        query="bgmd",
        mask="bgmk",
        output="bgmn",
        dims="bgmndk",
    ),
    "group that cannot be packed": dict(
        sizes={"b": 2, "g": 4, "m": 2, "n": 8, "d": 8, "k": 50},
        query="bgmd",
        mask="mk",
        output="bmgn",
        dims="bgmndk",
    ),
    "one head, one row": dict(sizes={"b": 1, "m": 1, "n": 8, "d": 8, "k": 60}),
    "one head, two rows": dict(sizes={"b": 1, "m": 2, "n": 8, "d": 8, "k": 50}),
    "no batch": dict(
        sizes={"m": 2, "n": 8, "d": 8, "k": 50},
        query="md",
        key="kd",
        value="nk",
        output="nm",
        dims="kdnm",
    ),
    "two key dims": dict(
        sizes={"b": 2, "m": 2, "n": 8, "d": 8, "k": 26, "j": 5},
        key="bkjd",
        value="bkjn",
        mask="jk",
        dims="bmndkj",
    ),
    "dynamic batch": dict(sizes={"b": 3, "m": 2, "n": 8, "d": 8, "k": 50}, dynamic="bk", mask="mk"),
}


@pytest.mark.parametrize("splits", [2, 3])
def test_orders(session, splits):
    cases = [Case(**case) for case in ORDERS.values()]
    check(session, *cases, pipeline=f"attn-split-k{{splits={splits}}}")


def test_score_region_is_kept(session):
    """Soft-capped scores."""
    score = """%c = arith.constant 2.0 : f32
    %x = arith.divf %s, %c : f32
    %y = math.tanh %x : f32
    %z = arith.mulf %y, %c : f32
    iree_linalg_ext.yield %z : f32"""
    # The region sees scores that are scaled for base 2 already.
    log2e = np.log2(np.e)
    case = Case({**SMALL, "m": 3, "k": 65}, score=score)
    check(session, case, score=lambda s: 2 * np.tanh(s * log2e / 2) / log2e)


GROUPED = """
func.func @main(%query: tensor<2x6x1x8xf32>, %key: tensor<2x2x50x8xf32>, %value: tensor<2x2x50x8xf32>) -> tensor<12x1x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x2x3x50x8xf32>
  %k5 = linalg.generic {indexing_maps = [affine_map<(b, h, g, k, d) -> (b, h, k, d)>, affine_map<(b, h, g, k, d) -> (b, h, g, k, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%key : tensor<2x2x50x8xf32>) outs(%e : tensor<2x2x3x50x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x3x50x8xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(b, h, g, k, d) -> (b, h, k, d)>, affine_map<(b, h, g, k, d) -> (b, h, g, k, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%value : tensor<2x2x50x8xf32>) outs(%e : tensor<2x2x3x50x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x2x3x50x8xf32>
  %q = tensor.collapse_shape %query [[0, 1], [2], [3]] : tensor<2x6x1x8xf32> into tensor<12x1x8xf32>
  %k = tensor.collapse_shape %k5 [[0, 1, 2], [3], [4]] : tensor<2x2x3x50x8xf32> into tensor<12x50x8xf32>
  %v = tensor.collapse_shape %v5 [[0, 1, 2], [3], [4]] : tensor<2x2x3x50x8xf32> into tensor<12x50x8xf32>
  %o = tensor.empty() : tensor<12x1x8xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, d, k) -> (b, m, d)>, affine_map<(b, m, n, d, k) -> (b, k, d)>, affine_map<(b, m, n, d, k) -> (b, k, n)>, affine_map<(b, m, n, d, k) -> ()>, affine_map<(b, m, n, d, k) -> (b, m, n)>]> ins(%q, %k, %v, %scale : tensor<12x1x8xf32>, tensor<12x50x8xf32>, tensor<12x50x8xf32>, f32) outs(%o : tensor<12x1x8xf32>) {
  ^bb0(%s: f32):
    iree_linalg_ext.yield %s : f32
  } -> tensor<12x1x8xf32>
  return %r : tensor<12x1x8xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize("splits", [5, 4])
def test_grouped_queries_become_rows(session, splits):
    case = Case(
        {"b": 2, "h": 2, "g": 3, "n": 8, "d": 8, "k": 50},
        query="bhgd",
        key="bhkd",
        value="bhkn",
        output="bhgn",
        dims="bhgndk",
    )
    data = case.inputs()
    (right,) = case.reference(data)
    (function,), report = compiled(session, [GROUPED], f"attn-split-k{{splits={splits}}}")
    assert "the key is read without its 3-fold repeat" in report.to_text()
    data["query"] = data["query"].reshape(2, 6, 1, 8)
    del data["out"]
    (mine,) = run(function, data)
    compare(mine.reshape(right.shape), right, case)


def any_case(data: st.DataObject) -> Case:
    """Random orders of dims and sizes, static and dynamic, with and without a mask."""

    def shuffled(letters: str) -> str:
        return "".join(data.draw(st.permutations(letters)))

    sizes = {c: data.draw(st.integers(1, 4), label=c) for c in "bhm"}
    sizes |= {"n": 8, "d": 8, "k": data.draw(st.integers(4, 70), label="k")}
    mask = data.draw(st.sampled_from(["", "k", "bk", "mk", "bhmk"]))
    return Case(
        sizes,
        query=shuffled("bhmd"),
        key=shuffled("bhkd"),
        value=shuffled("bhkn"),
        mask=shuffled(mask),
        output=shuffled("bhmn"),
        dims=shuffled("bhmndk"),
        dynamic=data.draw(st.sampled_from(["", "k"])),
        kind=data.draw(st.sampled_from(["attention", "online_attention"])),
        tolerance=1e-5,
    )


@given(data=st.data())
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_order_and_size(session, data):
    splits = data.draw(st.integers(2, 4), label="splits")
    cases = [any_case(data) for _ in range(3)]
    check(session, *cases, pipeline=f"attn-split-k{{splits={splits}}}")


def test_one_head_with_one_row_has_no_tail(session):
    case = Case({"b": 1, "m": 1, "n": 8, "d": 8, "k": 51}, tolerance=2e-6)
    check(session, case, pipeline="attn-split-k{splits=3}")


def test_all_lengths_of_a_static_split():
    """Chunks and tail cover every key once, whatever the length: no compile needed."""
    from attnpass.ir import Refusal
    from attnpass.split_k.plan import fixed_plan

    for length, splits in itertools.product(range(2, 200), range(2, 40)):
        plan = fixed_plan(0, length, splits)
        if isinstance(plan, Refusal):
            assert length < splits
            continue
        assert plan.splits and plan.chunk
        assert 0 <= length - plan.splits * plan.chunk < splits


@pytest.mark.parametrize("heads", [1, 7, 32, 256, 264])
def test_auto_keeps_its_promises(heads):
    """Whole tiles, no chunk below the minimum, a tail shorter than a chunk."""
    from iree.compiler import ir

    from attnpass.attention.facts import find
    from attnpass.ir import Refusal
    from attnpass.machines import named_target
    from attnpass.split_k.plan import MINIMUM_CHUNK, TILE, SplitPlan, make_plan

    context = ir.Context()
    context.load_all_available_dialects()
    for length in (511, 512, 513, 1000, 4096, 4097, 12289, 131072):
        text = Case({"b": heads, "m": 2, "n": 8, "d": 8, "k": length}).mlir()
        module = ir.Module.parse(text, context)
        plan = make_plan(find(module.operation)[0], None, named_target("sm_90"))
        if isinstance(plan, Refusal):
            assert length < 2 * MINIMUM_CHUNK
            continue
        assert isinstance(plan, SplitPlan) and plan.splits and plan.chunk
        assert plan.chunk >= MINIMUM_CHUNK and plan.chunk % TILE == 0 and plan.splits >= 2
        assert 0 <= length - plan.splits * plan.chunk < plan.chunk
