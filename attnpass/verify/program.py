"""A model's function as steps that can be cut out: what each needs and gives.

The module is that of IREE's `input` phase. Tensors come as arguments or through
`hal.tensor.import`; mutable globals are inputs and results like the others, named `@global`.
Constants, empty tensors and scalars made of them belong to no step: whoever reads them gets a
copy, so that no step is cut from its weights, and nothing uninitialised is handed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from ..analysis.boundary import FUNCTIONS
from ..attention.facts import OP_NAMES
from ..errors import AttnError
from ..ir import (
    Builder,
    DynamicSize,
    add_function,
    body_names,
    body_ops,
    collect,
    defining_op,
    is_scalar,
    known_attribute,
    location_text,
    outer_reads,
    printed,
    reached,
    reduces,
    symbol_name,
)
from ..ir.globals import GLOBAL, LOAD, STORE, global_type, load_global

# Element types that numpy arrays can bring to a device, or take from it.
ELEMENTS = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i1")
_SCALARS = ("f64", "f32", "i64", "i32", "index")
_IMPORT, _SIZE = "hal.tensor.import", "hal.buffer_view.dim"
_RETURNS = ("func.return", "util.return")
_CALLS = ("func.call", "util.call")
# What hands a tensor on: result number i is operand number i.
_HANDED_ON = ("hal.tensor.barrier", "hal.tensor.export", "hal.tensor.alias")
# Copied rather than cut, where all that they read is: sizes, empty and filled tensors.
_COPIED = ("tensor.empty", "tensor.dim", "linalg.fill")
_OTHER_WORK = ("linalg.softmax", "linalg.pack", "iree_linalg_ext.", "scf.")


class Uncuttable(Exception):
    """A function that this module does not know how to take apart, and why."""


@dataclass(eq=False)
class ProgramStep:
    """An op at the top level of the function; `number` counts from 0."""

    number: int
    op: ir.Operation

    @property
    def words(self) -> str:
        """`attention at model.mlir:12:8`."""
        return f"{kind_of(self.op)} at {location_text(self.op.location)}"


@dataclass(eq=False)
class Program:
    """A public function of a module. `inputs` are in the order of its arguments, then its mutable
    globals as they are first read; `results` in the order of its results, then the globals that it
    writes. `names` are those of all values that a cut may go through."""

    name: str
    module: ir.Operation
    function: ir.Operation
    steps: list[ProgramStep]
    inputs: dict[str, ir.Value]
    results: dict[str, ir.Value]
    names: dict[ir.Value, str]
    values: dict[str, ir.Value]
    # Constants that are not one number again and again, and globals that are never written.
    weights: dict[ir.Value, str] = field(default_factory=dict)
    # What values are other names of, and which step makes them.
    _same: dict[ir.Value, ir.Value] = field(default_factory=dict)
    _maker: dict[ir.Value, ProgramStep] = field(default_factory=dict)
    # The tensors that are imported from buffer views.
    _imported: dict[ir.Value, ir.Value] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        return [name for name in self.inputs if not name.startswith("@")]

    @property
    def globals_read(self) -> list[str]:
        return [name for name in self.inputs if name.startswith("@")]

    def real(self, value: ir.Value) -> ir.Value:
        while value in self._same:
            value = self._same[value]
        return value

    def step_of(self, value: ir.Value) -> ProgramStep | None:
        """The step that makes a value; None for inputs."""
        return self._maker.get(self.real(value))

    def needs(self, op: ir.Operation, weights: bool = False) -> list[ir.Value]:
        """What `op` reads that steps or inputs give, through what is copied; large constants,
        too, where `weights` are asked for."""
        return self._needed(self.reads(op), weights)

    def _needed(self, values: Iterable[ir.Value], weights: bool) -> list[ir.Value]:
        found: dict[ir.Value, None] = {}
        waiting = [self.real(value) for value in values]
        while waiting:
            value = waiting.pop(0)
            if value in self.names or (weights and value in self.weights):
                found[value] = None
                continue
            op = defining_op(value)
            if op is None:
                raise Uncuttable(f"it reads {value.type} itself")
            waiting += self.reads(op)
        return list(found)

    def reads(self, op: ir.Operation) -> list[ir.Value]:
        """Values from outside that `op` or an op in its regions reads."""
        if op.name == _SIZE:
            return [self._imported[op.operands[0]]]
        return list(dict.fromkeys(map(self.real, outer_reads(op))))

    def behind(self, steps: Iterable[ProgramStep], names: Iterable[str]) -> list[ProgramStep]:
        """Those of `steps` that `names` come from, in order."""
        allowed = set(steps)

        def makers(values: Iterable[ir.Value]) -> list[ProgramStep]:
            found = map(self.step_of, values)
            return [step for step in found if step is not None and step in allowed]

        starts = makers(self.values[name] for name in names)
        kept = reached(starts, lambda step: makers(self.needs(step.op)))
        return sorted(kept, key=lambda step: step.number)

    def made(self, steps: Iterable[ProgramStep]) -> set[str]:
        """The names of what steps make, results of the function under theirs, too."""
        inside = set(steps)
        return {name for name, value in self.values.items() if self.step_of(value) in inside}

    def takes(
        self, steps: Sequence[ProgramStep], outputs: Iterable[str], weights: bool = False
    ) -> list[str]:
        """What steps, and what is copied for `outputs`, read that they do not make."""
        inside = set(steps)
        needed = [value for step in steps for value in self.needs(step.op, weights)]
        needed += self._needed((self.values[name] for name in outputs), weights)
        names = self.names | self.weights
        found = {names[value] for value in needed if self._maker.get(value) not in inside}
        return [name for name in self.values if name in found]


def kind_of(op: ir.Operation) -> str:
    """`attention`, `product`, or the op's name."""
    if op.name in OP_NAMES:
        return op.name.rpartition(".")[2]
    if op.name.startswith("linalg.") and op.name != "linalg.generic" and is_work(op):
        return f"product ({op.name})" if "matmul" in op.name else op.name
    if op.name == "linalg.generic" and reduces(op):
        factors = sum(1 for name in body_names(op) if name.startswith("arith.mul"))
        return "product (linalg.generic)" if factors else "reduction (linalg.generic)"
    return op.name


def is_work(op: ir.Operation) -> bool:
    """Whether this is an op that others are fused around."""
    if op.name.startswith((*OP_NAMES, *_OTHER_WORK)):
        return True
    named = op.name.startswith("linalg.") and op.name not in (
        *("linalg.generic", "linalg.fill", "linalg.transpose", "linalg.copy"),
        "linalg.broadcast",
    )
    return named or (op.name == "linalg.generic" and reduces(op))


def is_cut(kind: ir.Type) -> bool:
    """Whether a value of this type can be a function's argument and be held in an array."""
    if not isinstance(kind, ir.RankedTensorType):
        return str(kind) in _SCALARS
    return kind.encoding is None and str(kind.element_type) in ELEMENTS


def public_functions(module: ir.Operation) -> dict[str, ir.Operation]:
    """The functions that a caller of the compiled module can use, by name: of the two that torch
    makes, the one that has the body."""
    found: dict[str, ir.Operation] = {}
    for op in body_ops(module):
        if op.name not in FUNCTIONS or not len(op.regions[0].blocks):
            continue
        if not printed.is_hidden(op):
            found[_name_of(op)] = op
    for name in [name for name in found if f"{name}$async" in found]:
        found[name] = found.pop(f"{name}$async")
    return found


def mutable_globals(module: ir.Operation) -> dict[str, ir.Operation]:
    """The module's mutable globals, by `@name`."""
    return {
        f"@{_name_of(op)}": op
        for op in body_ops(module)
        if op.name == GLOBAL and "is_mutable" in op.attributes
    }


def read_program(module: ir.Operation, name: str) -> Program:
    """The function of this name, with private functions inlined; Uncuttable where it is none
    that this module knows. Needs a current context."""
    function = public_functions(module)[name]
    if len(function.regions[0].blocks) != 1:
        raise Uncuttable("its function has several blocks")
    program = Program(name, module, function, [], {}, {}, {}, {})
    _ProgramReader(program).read()
    return program


class _ProgramReader:
    """Fills in a program, op by op."""

    def __init__(self, program: Program):
        self.program = program
        self.mutable = mutable_globals(program.module)
        self.state: dict[str, ir.Value] = {}
        self.written: dict[str, None] = {}

    def read(self) -> None:
        block = self.program.function.regions[0].blocks[0]
        for argument in block.arguments:
            if not printed.is_of_dialect(argument.type, "hal"):
                self._input(f"in{argument.arg_number}", argument)
        for op in block.operations:
            if op.operation.name == _IMPORT:
                self.program._imported[op.operation.operands[0]] = op.operation.results[0]
        for op in block.operations:
            self._op(op.operation)

    def _op(self, op: ir.Operation) -> None:
        program = self.program
        if op.name == _IMPORT:
            if defining_op(op.operands[0]) is not None:
                raise Uncuttable("it imports what is no argument")
            number = ir.BlockArgument(op.operands[0]).arg_number
            self._input(f"in{number}", op.results[0])
        elif op.name in _HANDED_ON:
            for operand, result in zip(op.operands, op.results, strict=False):
                program._same[result] = operand
        elif op.name == LOAD and _global_name(op) in self.mutable:
            self._load(op)
        elif op.name == STORE:
            self.state[_global_name(op)] = program.real(op.operands[0])
            self.written[_global_name(op)] = None
        elif op.name in _RETURNS:
            self._results(op)
        elif op.name != _SIZE and len(op.results):
            self._step(op)

    def _input(self, name: str, value: ir.Value) -> None:
        if not is_cut(value.type):
            raise Uncuttable(f"it takes {value.type}")
        self.program.inputs[name] = value
        self._name(name, value)

    def _name(self, name: str, value: ir.Value) -> None:
        self.program.names[value] = name
        self.program.values[name] = value

    def _load(self, op: ir.Operation) -> None:
        name = _global_name(op)
        if name in self.state:
            self.program._same[op.results[0]] = self.state[name]
        else:
            self.state[name] = op.results[0]
            self._input(name, op.results[0])

    def _results(self, op: ir.Operation) -> None:
        program = self.program
        for number, value in enumerate(op.operands):
            program.results[f"out{number}"] = program.real(value)
        for name in self.written:
            program.results[f"{name} written"] = self.state[name]
        for name, value in program.results.items():
            if not is_cut(value.type):
                raise Uncuttable(f"it returns {value.type}")
            program.values.setdefault(name, value)

    def _step(self, op: ir.Operation) -> None:
        _check_inside(op, self.mutable)
        if _is_weight(op):
            self.program.weights[op.results[0]] = f"c{len(self.program.weights)}"
            self.program.values[self.program.weights[op.results[0]]] = op.results[0]
        if _is_copied(op, self.program) or not all(is_cut(value.type) for value in op.results):
            return
        step = ProgramStep(len(self.program.steps), op)
        self.program.steps.append(step)
        for number, result in enumerate(op.results):
            self._name(f"v{step.number}" + (f".{number}" if number else ""), result)
            self.program._maker[result] = step


def _global_name(op: ir.Operation) -> str:
    return str(op.attributes["global"])


def _check_inside(op: ir.Operation, mutable: dict[str, ir.Operation]) -> None:
    """Uncuttable where more happens inside an op than its results say."""
    for inner in collect(op, lambda _: True):
        if inner.name in (LOAD, STORE) and _global_name(inner) in mutable:
            raise Uncuttable(f"{_global_name(inner)} is read or written inside {op.name}")
        if inner.name in _CALLS and mutable:
            raise Uncuttable("it calls a function that may write globals")
        if inner.name.startswith(("hal.", "stream.")):
            raise Uncuttable(f"it has {inner.name}")


def _is_weight(op: ir.Operation) -> bool:
    if op.name not in ("arith.constant", LOAD) or not is_cut(op.results[0].type):
        return False
    if op.name == LOAD:
        return not is_scalar(op.results[0])
    value = known_attribute(op, "value")
    splat = isinstance(value, ir.DenseElementsAttr) and value.is_splat
    return not is_scalar(op.results[0]) and not splat


def _is_copied(op: ir.Operation, program: Program) -> bool:
    if op.name == "arith.constant" or op.name in (LOAD, "util.global.address"):
        return True
    scalar = op.name.startswith("arith.") and all(is_scalar(value) for value in op.operands)
    if op.name not in _COPIED and not scalar:
        return False
    # Sizes of arguments, say; but what a step makes is not made again.
    return all(value not in program._maker for value in program.needs(op))


# ----- what is cut out, as a module


def segment(
    program: Program, steps: Sequence[ProgramStep], outputs: Sequence[str], weights: bool = False
) -> tuple[ir.Module, list[str]]:
    """A module whose function `main` does `steps` and returns `outputs`, and the names of what it
    takes: large constants, too, if `weights`. Needs a current context."""
    inputs = program.takes(steps, outputs, weights)
    module = ir.Module.create(ir.Location.unknown())

    def fill(build: Builder, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        known = dict(zip((program.values[name] for name in inputs), arguments, strict=True))
        copier = _Copier(program, build, known)
        return [copier.value(program.values[name]) for name in outputs]

    add_function(module, "main", [program.values[name].type for name in inputs], fill)
    _copy_symbols(program, module)
    module.operation.verify()
    return module, inputs


class _Copier:
    """Copies ops in the order they are needed: operands first."""

    def __init__(self, program: Program, build: Builder, known: dict[ir.Value, ir.Value]):
        self.program, self.build, self.known = program, build, known

    def value(self, value: ir.Value) -> ir.Value:
        value = self.program.real(value)
        waiting = [value]
        # A stack and no recursion: chains of ops may be long.
        while waiting:
            current = waiting[-1]
            if current in self.known:
                waiting.pop()
                continue
            op = defining_op(current)
            assert op is not None, "an argument that nothing gives"
            missing = [read for read in self.program.reads(op) if read not in self.known]
            if missing:
                waiting += missing
                continue
            self._copy(op)
            waiting.pop()
        return self.known[value]

    def _copy(self, op: ir.Operation) -> None:
        if op.name == _SIZE:
            (tensor,) = self.program.reads(op)
            size = DynamicSize(self.known[tensor], ir.IntegerAttr(op.attributes["index"]).value)
            self.known[op.results[0]] = self.build.size(size)
            return
        copy = self.build.copy(op)
        for inner in collect(copy, lambda _: True):
            for number, operand in enumerate(inner.operands):
                real = self.program.real(operand)
                if real in self.known:
                    inner.operands[number] = self.known[real]
        self.known.update(zip(op.results, copy.results, strict=True))


def _copy_symbols(program: Program, module: ir.Module) -> None:
    """Copies what a module's function refers to by name: globals, with what sets them, and private
    functions."""
    made = module.operation
    names = {_global_name(op) for op in collect(made, lambda op: op.name == LOAD)}
    calls = bool(collect(made, lambda op: op.name in _CALLS))
    point = ir.InsertionPoint(module.body.operations[0])
    for op in body_ops(program.module):
        if op.name in FUNCTIONS:
            wanted = calls and printed.is_hidden(op)
        elif op.name == GLOBAL:
            wanted = calls or f"@{_name_of(op)}" in names
        else:
            stores = collect(op, lambda inner: inner.name == STORE)
            wanted = calls or any(_global_name(store) in names for store in stores)
        if wanted:
            op.clone(ip=point)


def _name_of(op: ir.Operation) -> str:
    return symbol_name(op) if "sym_name" in op.attributes else ""


def text_of(module: ir.Module) -> str:
    return module.operation.get_asm()


def inline_calls(module: ir.Operation) -> None:
    """Inlines private functions."""
    from iree.compiler.passmanager import PassManager

    PassManager.parse("builtin.module(inline)").run(module)


def parse(data: bytes, context: ir.Context) -> ir.Module:
    """The module in text or bytecode that a compiler wrote."""
    try:
        module = ir.Module.parse(data, context)
    except ir.MLIRError as error:
        raise AttnError(f"IREE's own IR does not parse: {error}") from None
    return module


def alone(module: ir.Module, program: Program) -> ir.Module:
    """A copy of a module with no public function but the program's. Needs a current context."""
    made = ir.Module.create(ir.Location.unknown())
    names = {program.name, f"{program.name}$async"}
    for op in body_ops(module.operation):
        if op.name not in FUNCTIONS or printed.is_hidden(op) or _name_of(op) in names:
            op.clone(ip=ir.InsertionPoint(made.body))
    return made


def initial_values(module: ir.Operation, names: Sequence[str]) -> ir.Module:
    """A module whose function `main` returns what globals hold at first. Needs a current
    context."""
    made = ir.Module.create(ir.Location.unknown())
    for op in body_ops(module):
        if op.name not in FUNCTIONS:
            op.clone(ip=ir.InsertionPoint(made.body))

    def fill(build: Builder, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        globals_ = mutable_globals(module)
        loads = []
        for name in names:
            kind = global_type(globals_[name])
            loads.append(load_global(build, name.removeprefix("@"), kind))
        return loads

    add_function(made, "main", [], fill)
    made.operation.verify()
    return made
