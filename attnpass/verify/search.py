"""Holds a model against its reference and, where they differ, finds the least part that is wrong.

Every part takes the reference's values, so that it is wrong by its own fault: first the shortest
beginning of the program that gives a wrong value, then what of that the value needs, without the
steps that it is wrong without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from ..driver.modules import check_ops, module_bytes
from ..errors import AttnError
from ..ir import collect, element_of, element_type_name, tensor_bytes
from .folder import REFERENCE_LEVELS, Call, CompileRequest, Folder
from .inputs import USUAL_LENGTH, describe_arguments, draw, read_inputs, wishes_from
from .program import (
    Program,
    ProgramStep,
    Uncuttable,
    alone,
    initial_values,
    inline_calls,
    is_work,
    mutable_globals,
    parse,
    public_functions,
    read_program,
    segment,
)
from .run import compare

# The largest relative L2 errors that are right, by the least precise type that is computed with;
# f32 on CPUs and elsewhere.
TOLERANCES = {"f16": 5e-3, "bf16": 2e-2, "f8E4M3FN": 8e-2, "f8E5M2": 1.6e-1}
CPU_F32, OTHER_F32 = 2e-5, 3e-4
RIGHT, WRONG, UNKNOWN = "right", "wrong", "could not tell"
# What shows that a module computes wrong numbers, and what shows nothing.
_BAD = ("wrong", "crashed", "failed")
# A module with state is called so often.
_CALLS_WITH_STATE = 3
# Parts that are compiled at once where another machine runs them, steps that are tried alone and
# left out then, and that are left out in turn here.
_OFFLINE_WIDTH, _MOST_ALONE, _MOST_DROPS = 12, 16, 24
# All of the reference's values are computed at once up to so many bytes.
_AT_ONCE = 1 << 26


@dataclass
class Row:
    """A line of the table: what was compared, how far it is off, and what that means."""

    where: str
    verdict: str
    error: float | None = None
    limit: float | None = None
    reason: str = ""


@dataclass
class Fault:
    """The least part that is wrong."""

    words: str
    rows: list[Row]
    steps: list[str]
    text: str = ""
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    wanted: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Finding:
    """What was found: a verdict, the table, and the fault where there is one."""

    verdict: str
    rows: list[Row]
    reason: str = ""
    fault: Fault | None = None


@dataclass
class Trial:
    """A call of a function within a set of inputs: `name` is its folder of values; `before` are
    the calls that may have changed globals."""

    name: str
    program: Program
    before: tuple[Trial, ...]


class CannotTell(Exception):
    """The reference does not come to a result, and why."""


def verify(folder: Folder) -> Finding:
    """Does all that can be done here; Pending where another machine has to run modules first."""
    with ir.Context() as context, ir.Location.unknown():
        context.load_all_available_dialects()
        try:
            return _Verifier(folder, context).verify()
        except (CannotTell, Uncuttable) as error:
            return Finding(UNKNOWN, [], str(error))


class _Verifier:
    def __init__(self, folder: Folder, context: ir.Context):
        self.folder = folder
        self.settings = folder.settings
        self.imported = folder.imported()
        module = parse(self.imported, context)
        check_ops(module.operation)
        inline_calls(module.operation)
        self.module = module
        self.programs = self._programs()
        self.arguments = {name: describe_arguments(p) for name, p in self.programs.items()}
        self.globals = mutable_globals(module.operation)
        self.half = _has_half(module.operation)

    def _programs(self) -> dict[str, Program]:
        names = list(public_functions(self.module.operation))
        wanted = self.settings.function
        if not names:
            raise AttnError(
                "no function is public and has a body: there is nothing to run",
                self.settings.model,
            )
        if wanted and wanted not in names:
            raise AttnError(f"no function '{wanted}' (it has: {', '.join(names)})")
        if self.settings.inputs and not wanted and len(names) > 1:
            raise AttnError(f"--inputs needs --function, one of: {', '.join(names)}")
        chosen = [wanted] if wanted else names
        return {name: read_program(self.module.operation, name) for name in chosen}

    # ----- the whole

    def verify(self) -> Finding:
        trials = [self._trials(seed) for seed in range(self.settings.seeds)]
        requests = [self._whole(seed) for seed in trials]
        if self.settings.offline:
            self._foresee(trials[0], requests)
        rows: list[Row] = []
        wrong: list[tuple[Trial, list[str]]] = []
        for seed, result in zip(trials, self.folder.ask(requests), strict=True):
            if result["status"] in ("uncompiled", "late"):
                raise CannotTell(f"the model: {result['reason']}")
            rows += self._rows(seed, result)
            wrong += self._wrong(seed, result)
        if not wrong:
            return Finding(RIGHT, rows)
        return Finding(WRONG, rows, fault=_FaultSearch(self, *wrong[0]).fault())

    def _trials(self, seed: int) -> list[Trial]:
        """The calls of a set of inputs, with the reference's values of all that they return."""
        calls = _CALLS_WITH_STATE if self.globals else 1
        plan = [program for _ in range(calls) for program in self.programs.values()]
        trials: list[Trial] = []
        for number, program in enumerate(plan):
            trials.append(Trial(f"{seed}-{number}", program, tuple(trials)))
        # Odd lengths where the program takes them.
        for odd in (True, False) if seed % 2 else (False,):
            try:
                self._fill(trials, seed, odd)
                return trials
            except CannotTell:
                if not odd:
                    raise
        raise AssertionError("one of the two returns or raises")

    def _fill(self, trials: Sequence[Trial], seed: int, odd: bool) -> None:
        state: dict[str, np.ndarray] = {}
        if self.globals:
            state = self._initial()
        for number, trial in enumerate(trials):
            arrays = self._inputs(trial, seed, number, odd)
            arrays |= {name: state[name] for name in trial.program.globals_read}
            self.folder.begin(trial.name, self.imported + trial.program.name.encode(), arrays)
            self.reference(trial, list(trial.program.results), whole=True)
            for name in state:
                if f"{name} written" in trial.program.results:
                    state[name] = self.folder.value(trial.name, f"{name} written")

    def _inputs(self, trial: Trial, seed: int, call: int, odd: bool) -> dict[str, np.ndarray]:
        arguments = self.arguments[trial.program.name]
        if self.settings.inputs:
            arrays = read_inputs(self.settings.inputs, arguments, call)
        else:
            wishes = wishes_from(self.settings.lengths, self.settings.ranges)
            arrays = draw(arguments, seed, call, wishes, odd)
        return {argument.name: a for argument, a in zip(arguments, arrays, strict=True)}

    def _initial(self) -> dict[str, np.ndarray]:
        """What mutable globals hold at first."""
        module = initial_values(self.module.operation, list(self.globals))
        kinds = [ir.TypeAttr(op.attributes["type"]).value for op in self.globals.values()]
        outputs = self._values("globals", list(self.globals), kinds)
        self._ask_reference(module, Call("main", (), outputs))
        return {name: self.folder.value("globals", name) for name in self.globals}

    def _whole(self, trials: Sequence[Trial]) -> CompileRequest:
        calls = tuple(
            Call(
                trial.program.name,
                self.values(trial, trial.program.arguments),
                self.values(trial, _returned(trial.program), self.limit(trial.program.steps)),
            )
            for trial in trials
        )
        return CompileRequest(f"the model on inputs {trials[0].name.partition('-')[0]}", b"", calls)

    def _rows(self, trials: Sequence[Trial], result: dict[str, Any]) -> list[Row]:
        seed = trials[0].name.partition("-")[0]
        if not result["values"]:
            return [Row(f"inputs {seed}", WRONG, reason=f"{result['status']}: {result['reason']}")]
        names = [(t, name) for t in trials for name in _returned(t.program)]
        rows = []
        for (trial, name), value in zip(names, result["values"], strict=True):
            where = f"inputs {trial.name}, @{trial.program.name} {name}"
            rows.append(row_of(where, value, self.limit(trial.program.steps)))
        return rows

    def _wrong(
        self, trials: Sequence[Trial], result: dict[str, Any]
    ) -> list[tuple[Trial, list[str]]]:
        """The first call that is wrong, with the results that are."""
        if not result["values"]:
            bad = result["status"] in _BAD
            return [(trials[0], _returned(trials[0].program))] if bad else []
        values = iter(result["values"])
        for trial in trials:
            found = {name: next(values) for name in _returned(trial.program)}
            wrong = [name for name, value in found.items() if value["status"] == "wrong"]
            if wrong:
                return [(trial, wrong)]
        return []

    # ----- values

    def values(
        self, trial: Trial, names: Sequence[str], limit: float = 0.0
    ) -> tuple[dict[str, Any], ...]:
        kinds = [trial.program.values[name].type for name in names]
        return self._values(trial.name, names, kinds, limit)

    def _values(
        self, trial: str, names: Sequence[str], kinds: Sequence[ir.Type], limit: float = 0.0
    ) -> tuple[dict[str, Any], ...]:
        path = self.folder.value_path
        return tuple(
            {
                "name": name,
                "path": path(trial, name),
                "element": str(element_of(kind)),
                "scalar": not isinstance(kind, ir.ShapedType),
                "limit": limit,
            }
            for name, kind in zip(names, kinds, strict=True)
        )

    def reference(self, trial: Trial, names: Sequence[str], whole: bool = False) -> None:
        """Makes sure that the reference's values of `names` are in the folder: computed by it from
        the call's inputs, unless `whole` all that the program has at once where that is not
        much."""
        program = trial.program
        missing = [name for name in names if not self.folder.has(trial.name, name)]
        if not missing:
            return
        if not whole:
            every = [name for name in program.names.values() if name not in program.inputs]
            if sum(tensor_bytes(program.values[name], USUAL_LENGTH) for name in every) <= _AT_ONCE:
                missing = [*every, *(name for name in missing if name not in every)]
        self._compute(trial, program.behind(program.steps, missing), missing)
        if not whole:
            self._check_results(trial)

    def _check_results(self, trial: Trial) -> None:
        """CannotTell where the reference computes other results once it hands out more values."""
        program = trial.program
        for result, value in program.results.items():
            name = program.names.get(value, "")
            if name in program.inputs or not self.folder.has(trial.name, name):
                continue
            again, first = (self.folder.value(trial.name, n) for n in (name, result))
            found = compare(again, first, element_type_name(value), self.limit(program.steps))
            if found["status"] != RIGHT:
                where = f"@{program.name} {result}"
                raise CannotTell(f"the reference has two values of {where}, by what else it gives")

    def _compute(self, trial: Trial, steps: Sequence[ProgramStep], names: Sequence[str]) -> None:
        """The reference's values of `names` by `steps`, in two parts where IREE does not compile
        them in one."""
        if not names:
            return
        module, inputs = segment(trial.program, steps, names)
        call = Call("main", self.values(trial, inputs), self.values(trial, names))
        try:
            self._ask_reference(module, call)
        except CannotTell:
            if len(steps) < 2:
                raise
            half = len(steps) // 2
            first, second = steps[:half], steps[half:]
            made = trial.program.made(first)
            between = [name for name in trial.program.takes(second, names) if name in made]
            self._compute(trial, first, [*between, *(n for n in names if n in made)])
            self._compute(trial, second, [name for name in names if name not in made])

    def _ask_reference(self, module: ir.Module, call: Call) -> None:
        result: dict[str, Any] = {}
        for level in REFERENCE_LEVELS:
            request = CompileRequest("reference", module_bytes(module), (call,), level, self.half)
            (result,) = self.folder.ask([request])
            if result["status"] == RIGHT:
                return
        why = f"{result['status']}: {result['reason']}"
        raise CannotTell(f"the reference {why.removeprefix('uncompiled: ')}")

    def limit(self, steps: Iterable[ProgramStep]) -> float:
        """The largest error that is right for what these steps compute."""
        kinds = {
            element_type_name(value)
            for step in steps
            for value in (*step.op.operands, *step.op.results)
        }
        f32 = CPU_F32 if self.settings.driver.startswith("local") else OTHER_F32
        return max(TOLERANCES.get(kind, f32) for kind in (*kinds, "f32"))

    def part(
        self,
        trial: Trial,
        steps: Sequence[ProgramStep],
        outputs: Sequence[str],
        weights: bool = False,
    ) -> CompileRequest:
        """A request for a part of the program, on the reference's values."""
        module, inputs = segment(trial.program, steps, outputs, weights)
        self.reference(trial, [*inputs, *outputs])
        limit = self.limit(steps)
        call = Call("main", self.values(trial, inputs), self.values(trial, outputs, limit))
        words = f"{len(steps)} of {len(trial.program.steps)} steps"
        return CompileRequest(words, module_bytes(module), (call,))

    def _foresee(self, trials: Sequence[Trial], requests: list[CompileRequest]) -> None:
        """Compiles what is asked first if a result is wrong, too: each run elsewhere takes time."""
        search = _FaultSearch(self, trials[0], _returned(trials[0].program))
        ahead = search.first_requests()
        self.folder.prepare([*requests, *ahead])


class _FaultSearch:
    """Finds the least part of a program that is wrong in a call, by the results `wrong`."""

    def __init__(self, verifier: _Verifier, trial: Trial, wrong: Sequence[str]):
        self.verifier, self.trial, self.program = verifier, trial, trial.program
        offline = verifier.settings.offline
        self.width = _OFFLINE_WIDTH if offline else max(2, verifier.settings.jobs)
        # Where runs are dear, all results: their parts are compiled before any is run.
        self.outputs = _returned(trial.program) if offline else list(wrong)
        self.outputs = [name for name in self.outputs if self.program.step_of(self._of(name))]
        self.steps = self.program.behind(self.program.steps, self.outputs)
        self.rows: list[Row] = []

    def _of(self, name: str) -> ir.Value:
        return self.program.values[name]

    def fault(self) -> Fault:
        if not self._bad(self.steps, self.outputs):
            return self._outside()
        steps, outputs = self._first_wrong()
        if len(steps) > 1:
            steps = self._without_beginning(steps, outputs)
            steps = self._without_single(steps, outputs)
        weights = self._bad(steps, outputs, weights=True)
        return self._fault(steps, outputs, weights)

    # ----- tests of parts

    def _ask(self, parts: Sequence[tuple[list[ProgramStep], list[str]]]) -> list[dict[str, Any]]:
        requests = [self.verifier.part(self.trial, *part) for part in parts]
        return self.verifier.folder.ask(requests)

    def _bad(
        self, steps: Sequence[ProgramStep], outputs: Sequence[str], weights: bool = False
    ) -> bool:
        request = self.verifier.part(self.trial, steps, outputs, weights)
        (result,) = self.verifier.folder.ask([request])
        return result["status"] in _BAD

    def _beginning(self, count: int) -> tuple[list[ProgramStep], list[str]]:
        """The first steps, with all that the others and the results need of them."""
        if count == len(self.steps):
            return self.steps, self.outputs
        steps = self.steps[:count]
        later = [value for step in self.steps[count:] for value in self.program.needs(step.op)]
        read = {self.program.names[value] for value in later}
        read |= {self.program.names[self.program.real(self._of(name))] for name in self.outputs}
        made = [self.program.names.get(value) for step in steps for value in step.op.results]
        return steps, [name for name in made if name in read]

    def _first_wrong(self) -> tuple[list[ProgramStep], list[str]]:
        """The shortest beginning that is wrong, cut down to its first wrong value."""
        count = _least(len(self.steps), self.width, self._bad_beginnings)
        steps, outputs = self._beginning(count)
        (result,) = self._ask([(steps, outputs)])
        wrong = [value["name"] for value in result["values"] if value["status"] == "wrong"]
        for name in wrong[:1]:
            # Most often it is the op that makes the value, alone.
            for needed in (self._maker(name), self.program.behind(steps, [name])):
                if self._bad(needed, [name]):
                    return needed, [name]
        return steps, outputs

    def _maker(self, name: str) -> list[ProgramStep]:
        step = self.program.step_of(self._of(name))
        assert step is not None, "no input is wrong"
        return [step]

    def _bad_beginnings(self, counts: Sequence[int]) -> list[bool]:
        results = self._ask([self._beginning(count) for count in counts])
        return [result["status"] in _BAD for result in results]

    def _without_beginning(self, steps: list[ProgramStep], outputs: list[str]) -> list[ProgramStep]:
        """The shortest end of `steps` that is wrong."""

        def bad(counts: Sequence[int]) -> list[bool]:
            ends = [self._end(steps, outputs, count) for count in counts]
            results = self._ask([(end, outputs) for end in ends])
            return [result["status"] in _BAD for result in results]

        return self._end(steps, outputs, _least(len(steps), self.width, bad))

    def _end(self, steps: list[ProgramStep], outputs: list[str], count: int) -> list[ProgramStep]:
        return self.program.behind(steps[len(steps) - count :], outputs)

    def _without_single(self, steps: list[ProgramStep], outputs: list[str]) -> list[ProgramStep]:
        """`steps` without those that it is wrong without, tried one by one."""
        for step in steps[:_MOST_DROPS]:
            fewer = self._dropped(steps, outputs, step)
            if step in steps and fewer and self._bad(fewer, outputs):
                steps = fewer
        return steps

    def _dropped(
        self, steps: list[ProgramStep], outputs: list[str], step: ProgramStep
    ) -> list[ProgramStep]:
        fewer = self.program.behind([other for other in steps if other is not step], outputs)
        # The makers of the outputs stay.
        makers = {self.program.step_of(self._of(name)) for name in outputs}
        return fewer if step not in makers else []

    def first_requests(self) -> list[CompileRequest]:
        """What is asked first, as far as that can be known."""
        parts = [(self.steps, self.outputs)]
        counts = _between(0, len(self.steps), self.width)
        parts += [self._beginning(count) for count in counts]
        if len(self.outputs) == 1:
            ends = [self._end(self.steps, self.outputs, count) for count in counts]
            parts += [(end, self.outputs) for end in ends]
            if len(self.steps) <= _MOST_ALONE:
                drops = [self._dropped(self.steps, self.outputs, step) for step in self.steps]
                parts += [(drop, self.outputs) for drop in drops if drop]
        if len(self.steps) <= _MOST_ALONE:
            made = {step: self.program.made([step]) for step in self.steps}
            every = {*self.program.names.values()}
            names = [every & made[step] for step in self.steps]
            parts += [([s], [n]) for s, ns in zip(self.steps, names, strict=True) for n in ns]
        requests = [self.verifier.part(self.trial, *part) for part in parts]
        requests.append(self.verifier.part(self.trial, *parts[0], weights=True))
        return requests

    # ----- what was found

    def _fault(self, steps: list[ProgramStep], outputs: list[str], weights: bool) -> Fault:
        request = self.verifier.part(self.trial, steps, outputs, weights)
        (result,) = self.verifier.folder.ask([request])
        limit = self.verifier.limit(steps)
        work = [step for step in steps if is_work(step.op)] or steps
        words = ", ".join(step.words for step in work)
        rows = [row_of(words, value, limit) for value in result["values"]]
        if not rows:
            rows = [Row(words, WRONG, reason=f"{result['status']}: {result['reason']}")]
        module, inputs = segment(self.program, steps, outputs, weights)
        value = self.verifier.folder.value
        return Fault(
            words,
            rows,
            [step.words for step in steps],
            module.operation.get_asm(),
            {f"in{n}": value(self.trial.name, name) for n, name in enumerate(inputs)},
            {f"out{n}": value(self.trial.name, name) for n, name in enumerate(outputs)},
        )

    def _outside(self) -> Fault:
        """The fault where all steps together are right: what IREE does to globals, or at the
        boundary of the module. Its reproduction is the function as it is."""
        names = ", ".join(self.verifier.globals)
        words = "the module as a whole: its steps are right on the same inputs"
        if names:
            words = f"mutable globals ({names}): the rest is right where they are handed in and out"
        fault = Fault(words, [Row(words, WRONG)], [])
        calls = (*self.trial.before, self.trial)
        if all(call.program is self.program for call in calls):
            fault.text = alone(self.verifier.module, self.program).operation.get_asm()
            fault.inputs = self._of_calls(calls, self.program.arguments)
            fault.wanted = self._of_calls(calls, _returned(self.program))
        return fault

    def _of_calls(self, calls: Sequence[Trial], names: Sequence[str]) -> dict[str, np.ndarray]:
        """Values of calls, by `in0` where there is one call, else by `c0_in0` and so on."""
        value = self.verifier.folder.value
        prefixes = [f"c{n}_" if len(calls) > 1 else "" for n in range(len(calls))]
        return {
            f"{prefix}{name}": value(call.name, name)
            for prefix, call in zip(prefixes, calls, strict=True)
            for name in names
        }


def row_of(where: str, value: dict[str, Any], limit: float) -> Row:
    return Row(where, value["status"], value.get("error"), limit, value.get("reason", ""))


def _returned(program: Program) -> list[str]:
    """What a caller gets: results, and no globals."""
    return [name for name in program.results if not name.startswith("@")]


def _least(most: int, width: int, bad: Any) -> int:
    """The least count from 1 to `most` that is bad, `most` being so, where more is bad, too;
    `bad` says it of several counts at once."""
    low, high = 0, most
    while high - low > 1:
        counts = _between(low, high, width)
        found = bad(counts)
        first = next((n for n, is_bad in zip(counts, found, strict=True) if is_bad), high)
        low = max((n for n in counts if n < first), default=low)
        high = first
    return high


def _between(low: int, high: int, width: int) -> list[int]:
    """Up to `width` numbers between two, evenly."""
    inner = high - low - 1
    count = min(width, inner)
    return sorted({low + (i + 1) * (inner + 1) // (count + 1) for i in range(count)})


def _has_half(module: ir.Operation) -> bool:
    """Whether it computes with types that a CPU without their instructions is slow with."""
    kinds = {element_type_name(v) for op in collect(module, lambda _: True) for v in op.results}
    return bool(kinds & {"f16", "bf16"})
