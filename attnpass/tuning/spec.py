"""The IREE tuning spec of tuned attentions: a transform dialect library.

Plain iree-compile applies it by `--iree-codegen-tuning-spec-path=FILE`. IREE runs it after it
has made `online_attention` of each attention, so that is what the spec matches: the whole op,
score function included, with exactly these types and maps. An op that has a configuration
already is left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.compiler import ir

from ..attention.edit import edit
from ..attention.facts import AttentionFacts, find
from ..ir import DYNAMIC, Builder, append_op, fill_region, maps
from ..machines.table import ATTRIBUTES

_ENTRY = "__kernel_config"


@dataclass(frozen=True)
class SpecEntry:
    """A configuration for the attention in the module `text`, and words for a comment."""

    text: str
    configuration: dict[str, str]
    words: str


def spec_text(rules: Sequence[SpecEntry], context: ir.Context) -> str:
    """The spec that holds these rules, verified by IREE's own checks; the first that matches
    holds. `context` must have IREE's dialects loaded."""
    with context, ir.Location.unknown():
        module = ir.Module.create()
        flags = (
            "transform.with_named_sequence",
            "iree_codegen.tuning_spec_with_default_entrypoint",
        )
        module.operation.attributes["sym_name"] = ir.StringAttr.get("attnpass_tuning")
        for name in flags:
            module.operation.attributes[name] = ir.UnitAttr.get()
        names = [_add_rule(module, number, rule) for number, rule in enumerate(rules)]
        _add_entry(module, [pair for pairs in names for pair in pairs])
        module.operation.verify()
        text = str(module)
    heads = (
        f"// {name}: {rule.words}"
        for pairs, rule in zip(names, rules, strict=True)
        for name, _ in pairs
    )
    return "\n".join(
        ["// Configurations for attention, for --iree-codegen-tuning-spec-path.", *heads, text]
    )


def _add_rule(module: ir.Module, number: int, rule: SpecEntry) -> list[tuple[str, str]]:
    """Adds the matchers of a rule and the sequence that applies it; returns their names, in
    pairs."""
    present = [name for name in ATTRIBUTES if name in rule.configuration]
    op, param = _types("any_op", "any_param")
    source = ir.Module.parse(rule.text)
    facts = find(source.operation)[0]

    def match(
        inputs: Sequence[ir.Type], build: Builder, arguments: Sequence[ir.Value]
    ) -> list[ir.Value]:
        (attention,) = arguments
        build.create("transform.iree.match.has_no_lowering_config", [], [attention])
        _match_whole(facts, inputs, attention, build)
        values = [ir.Attribute.parse(rule.configuration[name]) for name in present]
        params = [
            build.create("transform.param.constant", [param], [], {"value": value})
            for value in values
        ]
        return [attention, *(constant.results[0] for constant in params)]

    def apply(build: Builder, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        attention, *values = arguments
        for name, value in zip(present, values, strict=True):
            named = {"name": ir.StringAttr.get(name)}
            build.create("transform.annotate", [], [attention, value], named)
        return []

    kinds = [op, *[param] * len(present)]
    action = f"configure_attention_{number}"
    pairs: list[tuple[str, str]] = []
    for variant, inputs in enumerate(_input_types(facts)):
        matcher = f"match_attention_{number}" + ("_in_memory" if variant else "")
        _sequence(module, matcher, [op], kinds, ["readonly"], functools.partial(match, inputs))
        pairs.append((matcher, action))
    _sequence(module, action, kinds, [], ["readonly"] * len(kinds), apply)
    return pairs


def _input_types(facts: AttentionFacts) -> list[list[ir.Type]]:
    """The types of the inputs, and those that they have where a mask of bits comes from memory:
    there IREE keeps bits as bytes."""
    inputs = [facts.value(name).type for name in facts.operand_names[: -len(facts.result_names)]]
    if not facts.has_mask or facts.element_types["mask"] != "i1":
        return [inputs]
    mask = ir.RankedTensorType(inputs[-1])
    return [inputs, [*inputs[:-1], ir.RankedTensorType.get(mask.shape, ir.Type.parse("i8"))]]


def _match_whole(
    facts: AttentionFacts, inputs: Sequence[ir.Type], attention: ir.Value, build: Builder
) -> None:
    """Matches the online_attention that IREE makes of this attention."""
    (value,) = _types("any_value")
    outputs = [operand.type for operand in list(facts.op.operands)[len(inputs) :]]
    positions = [facts.map_of(name) for name in facts.result_names]
    if facts.kind == "attention":
        # IREE sums up in f32, with a maximum and a sum for each row.
        rows = tuple(dim for dim in facts.map_of("output") if dim not in facts.n)
        output = build.tensor_type(_sizes(facts, facts.map_of("output")), ir.F32Type.get())
        state = build.tensor_type(_sizes(facts, rows), ir.F32Type.get())
        outputs = [output, state, state]
        positions += [rows, rows]

    def body(inner: Builder, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        made = edit(facts, inner).without_configuration()
        for name, argument in zip(facts.operand_names, arguments[: len(inputs)], strict=False):
            made = made.operand(name, argument)
        made.starts(arguments[len(inputs) :], positions).build()
        return []

    name = "transform.iree.match.cast_compatible_dag_from_root"
    dag = build.create(name, [value, value], [attention], {}, regions=1)
    fill_region(dag, [*inputs, *outputs], "transform.yield", body)


def _sizes(facts: AttentionFacts, positions: maps.Positions) -> list[int]:
    sizes = (1 if dim is None else facts.sizes[dim] for dim in positions)
    return [DYNAMIC if size is None else size for size in sizes]


def _add_entry(module: ir.Module, rules: Sequence[tuple[str, str]]) -> None:
    (op,) = _types("any_op")

    def body(build: Builder, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        matchers, actions = zip(*rules, strict=True) if rules else ((), ())
        attributes = {
            "matchers": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(name) for name in matchers]),
            "actions": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(name) for name in actions]),
        }
        return list(build.create("transform.foreach_match", [op], arguments, attributes).results)

    entry = _sequence(module, _ENTRY, [op], [op], ["consumed"], body)
    entry.attributes["iree_codegen.tuning_spec_entrypoint"] = ir.UnitAttr.get()


def _sequence(
    module: ir.Module,
    name: str,
    arguments: Sequence[ir.Type],
    results: Sequence[ir.Type],
    access: Sequence[str],
    body: Callable[[Builder, Sequence[ir.Value]], list[ir.Value]],
) -> ir.Operation:
    """Appends `transform.named_sequence @name`; `access` says what it does to each argument."""
    marks = [ir.DictAttr.get({f"transform.{word}": ir.UnitAttr.get()}) for word in access]
    attributes: dict[str, ir.Attribute] = {
        "sym_name": ir.StringAttr.get(name),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(arguments, results)),
        "arg_attrs": ir.ArrayAttr.get(marks),
    }
    op = append_op(module, "transform.named_sequence", attributes)
    fill_region(op, arguments, "transform.yield", body)
    return op


def _types(*names: str) -> list[ir.Type]:
    return [ir.Type.parse(f"!transform.{name}") for name in names]
