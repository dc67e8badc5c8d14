"""Modules of a projection into attention, in each form that the passes rewrite and configure."""

from __future__ import annotations

from dataclasses import dataclass

from bench.attention import K, Q, V, fresh_attention

# What V is multiplied by before it is rounded to 8 bits; attention's output is in these units.
SCALE = 64.0


@dataclass(frozen=True)
class Case:
    """One module: how V is projected, and the shape around it. `narrow` is the type of Q, K and
    V where it has 8 bits: V is scaled and rounded behind the projection."""

    form: str
    dtype: str = "f16"
    batch: int = 1
    heads: int = 4
    kv_heads: int = 4
    rows: int = 256
    keys: int = 256
    head: int = 64
    model: int = 256
    bias: bool = False
    narrow: str = ""

    @property
    def operands(self) -> str:
        """The element type of Q, K and V."""
        return self.narrow or self.dtype

    @property
    def name(self) -> str:
        words = [self.form, self.dtype, *([self.narrow] if self.narrow else [])]
        words += [f"b{self.batch}", f"m{self.rows}"]
        if self.kv_heads != self.heads:
            words.append(f"kv{self.kv_heads}of{self.heads}")
        return "_".join([*words, *(["bias"] if self.bias else [])])


class Text:
    """Writes MLIR line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def value(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %{self.count} = {text}")
        return f"%{self.count}"

    def empty(self, shape: list[int], kind: str) -> str:
        return self.value(f"tensor.empty() : {tensor(shape, kind)}")

    def zeros(self, shape: list[int]) -> str:
        kind = tensor(shape, "f32")
        empty = self.empty(shape, "f32")
        return self.value(f"linalg.fill ins(%zero : f32) outs({empty} : {kind}) -> {kind}")

    def elementwise(
        self, value: str, shape: list[int], kind: str, bias: str = "", factor: float = 1.0
    ) -> str:
        """Cast from f32 to `kind`, after adding a bias over the last dim and scaling."""
        dims = ", ".join(f"d{i}" for i in range(len(shape)))
        last = f"d{len(shape) - 1}"
        identity = f"affine_map<({dims}) -> ({dims})>"
        maps = [identity, *([f"affine_map<({dims}) -> ({last})>"] if bias else []), identity]
        loops = ", ".join(['"parallel"'] * len(shape))
        ins = f"{value}{', ' + bias if bias else ''} : {tensor(shape, 'f32')}"
        ins += f", {tensor(shape[-1:], 'f32')}" if bias else ""
        out = self.empty(shape, kind)
        arguments = "%a: f32, " + ("%b: f32, " if bias else "") + f"%o: {kind}"
        body, source = [], "%a"
        if bias:
            body.append("%t = arith.addf %a, %b : f32")
            source = "%t"
        if factor != 1.0:
            by = self.value(f"arith.constant {factor} : f32")
            body.append(f"%s = arith.mulf {source}, {by} : f32")
            source = "%s"
        body += [f"%c = arith.truncf {source} : f32 to {kind}", f"linalg.yield %c : {kind}"]
        lines = "".join(f"    {line}\n" for line in body)
        return self.value(
            f"linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{loops}]}} "
            f"ins({ins}) outs({out} : {tensor(shape, kind)}) {{\n"
            f"  ^bb0({arguments}):\n{lines}  }} -> {tensor(shape, kind)}"
        )

    def repeat(self, value: str, source: list[int], dims: list[int], shape: list[int], kind: str):
        """Repeats a value of shape `source`, whose dim j is dim dims[j] of `shape`."""
        names = [f"d{i}" for i in range(len(shape))]
        loops = ", ".join(['"parallel"'] * len(shape))
        inner = ", ".join(names[d] for d in dims)
        outer = ", ".join(names)
        out = self.empty(shape, kind)
        return self.value(
            f"linalg.generic {{indexing_maps = [affine_map<({outer}) -> ({inner})>, "
            f"affine_map<({outer}) -> ({outer})>], iterator_types = [{loops}]}} "
            f"ins({value} : {tensor(source, kind)}) outs({out} : {tensor(shape, kind)}) {{\n"
            f"  ^bb0(%a: {kind}, %o: {kind}):\n    linalg.yield %a : {kind}\n"
            f"  }} -> {tensor(shape, kind)}"
        )

    def expand(self, value: str, source: list[int], groups: str, shape: list[int], kind: str):
        return self.value(
            f"tensor.expand_shape {value} {groups} output_shape {shape} : "
            f"{tensor(source, kind)} into {tensor(shape, kind)}"
        )

    def collapse(self, value: str, source: list[int], groups: str, shape: list[int], kind: str):
        return self.value(
            f"tensor.collapse_shape {value} {groups} : "
            f"{tensor(source, kind)} into {tensor(shape, kind)}"
        )


def tensor(shape: list[int], kind: str) -> str:
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


def inputs_of(case: Case) -> dict[str, list[int]]:
    """Names and shapes of the function's arguments."""
    width = case.kv_heads * case.head
    batch = case.batch * case.heads
    shapes = {"q": [batch, case.rows, case.head], "k": [batch, case.keys, case.head]}
    if case.form == "argument":
        return {**shapes, "v": [case.batch, case.kv_heads, case.keys, case.head]}
    if case.form in ("matmul", "generic"):
        shapes["x"] = [case.batch * case.keys, case.model]
    else:
        shapes["x"] = [case.batch, case.keys, case.model]
    shapes["w"] = {
        "matmul": [case.model, width],
        "generic": [width, case.model],
        "batched": [case.batch, case.model, width],
        "packed": [case.model, 3 * width],
    }.get(case.form, [case.model, width])
    if case.bias:
        shapes["beta"] = [width]
    return shapes


def module_text(case: Case) -> str:
    """The module of a case, as IREE's `preprocessing` phase would hold it."""
    text, kind = Text(), case.operands
    b, s, d, width = case.batch, case.keys, case.head, case.kv_heads * case.head
    if case.form == "argument":
        v4 = "%v"
    else:
        v = project(text, case, width)
        flat = [b, s, width]
        if case.form == "split" or case.form in ("matmul", "generic"):
            flat = [b * s, width]
            groups = "[[0, 1], [2, 3]]"
        else:
            groups = "[[0], [1], [2, 3]]"
        v = text.expand(v, flat, groups, [b, s, case.kv_heads, d], kind)
        out = text.empty([b, case.kv_heads, s, d], kind)
        v4 = text.value(
            f"linalg.transpose ins({v} : {tensor([b, s, case.kv_heads, d], kind)}) outs({out} : "
            f"{tensor([b, case.kv_heads, s, d], kind)}) permutation = [0, 2, 1, 3]"
        )
    shape = [b, case.kv_heads, s, d]
    groups = "[[0, 1], [2], [3]]"
    if case.kv_heads != case.heads:
        repeated = [b, case.kv_heads, case.heads // case.kv_heads, s, d]
        v4 = text.repeat(v4, shape, [0, 1, 3, 4], repeated, kind)
        shape, groups = repeated, "[[0, 1, 2], [3], [4]]"
    v = text.collapse(v4, shape, groups, [b * case.heads, s, d], kind)
    q, k = inputs_of(case)["q"], inputs_of(case)["k"]
    result_kind = tensor(q, case.dtype)
    read = [
        ("%q", tensor(q, kind), Q),
        ("%k", tensor(k, kind), K),
        (v, tensor([b * case.heads, s, d], kind), V),
        ("%scale", case.dtype, ""),
    ]
    text.lines.append(fresh_attention("%result", read, result_kind))
    arguments = ", ".join(f"%{name}: {of}" for name, of in argument_types(case).items())
    body = "\n".join(text.lines)
    return (
        f"func.func @main({arguments}) -> {result_kind} {{\n"
        f"  %zero = arith.constant 0.0 : f32\n"
        f"  %scale = arith.constant {d**-0.5:e} : {case.dtype}\n"
        f"{body}\n  return %result : {result_kind}\n}}\n"
    )


def argument_types(case: Case) -> dict[str, str]:
    """Names and types of the function's arguments."""
    own = {"q": case.operands, "k": case.operands, "v": case.operands, "beta": "f32"}
    return {n: tensor(s, own.get(n, case.dtype)) for n, s in inputs_of(case).items()}


def project(text: Text, case: Case, width: int) -> str:
    """V before its heads are split, cast to its type."""
    kind, b, s = case.dtype, case.batch, case.keys
    factor = SCALE if case.narrow else 1.0
    shapes = inputs_of(case)
    x, w = tensor(shapes["x"], kind), tensor(shapes["w"], kind)
    bias = "%beta" if case.bias else ""
    if case.form in ("matmul", "generic"):
        shape = [b * s, width]
        out = f"outs({text.zeros(shape)} : {tensor(shape, 'f32')})"
        if case.form == "matmul":
            product = f"linalg.matmul ins(%x, %w : {x}, {w}) {out} -> {tensor(shape, 'f32')}"
        else:
            product = generic_product(x, w, out, shape, kind)
        return text.elementwise(text.value(product), shape, case.operands, bias, factor)
    weight, wide = "%w", [b, *shapes["w"]]
    if case.form == "batched":
        wide = shapes["w"]
    else:
        weight = text.repeat("%w", shapes["w"], [1, 2], wide, kind)
    shape = [b, s, wide[-1]]
    product = text.value(
        f"linalg.batch_matmul ins(%x, {weight} : {x}, {tensor(wide, kind)}) "
        f"outs({text.zeros(shape)} : {tensor(shape, 'f32')}) -> {tensor(shape, 'f32')}"
    )
    v = text.elementwise(product, shape, case.operands, bias, factor)
    if case.form == "packed":
        v = text.value(
            f"tensor.extract_slice {v}[0, 0, {2 * width}] [{b}, {s}, {width}] [1, 1, 1] : "
            f"{tensor(shape, case.operands)} to {tensor([b, s, width], case.operands)}"
        )
    if case.form == "split":
        return text.collapse(v, shape, "[[0, 1], [2]]", [b * s, width], case.operands)
    return v


def generic_product(x: str, w: str, out: str, shape: list[int], kind: str) -> str:
    return (
        "linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, "
        "affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], "
        'iterator_types = ["parallel", "parallel", "reduction"]} '
        f"ins(%x, %w : {x}, {w}) {out} {{\n  ^bb0(%a: {kind}, %b: {kind}, %o: f32):\n"
        f"    %a1 = arith.extf %a : {kind} to f32\n    %b1 = arith.extf %b : {kind} to f32\n"
        "    %p = arith.mulf %a1, %b1 : f32\n    %s = arith.addf %o, %p : f32\n"
        f"    linalg.yield %s : f32\n  }} -> {tensor(shape, 'f32')}"
    )
