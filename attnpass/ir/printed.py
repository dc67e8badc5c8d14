"""IREE's attributes and types that Python can only print: what is read from their text, and
written into it.

IREE 3.13's bindings have no classes for executable targets, lowering configurations, translation
infos and assumptions. No other module knows how these are spelled.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

_BACKEND = re.compile(r'#hal\.executable\.target<"([^"]+)"')
_PIPELINE = re.compile(r"#iree_[cg]pu\.pipeline<\w+>")
_ASSUMED = re.compile(r"\b(umin|umax|udiv) = (\d+)")
_MMA = re.compile(r"mma_kind = #iree_gpu\.\w+<(\w+)")
_PTX = re.compile(r"ptx(\d+)")
# Numbers in brackets, or such lists in brackets.
_LIST = r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]"
# Levels of a lowering configuration, from the outside in.
_TILED = ("workgroup", "distribution", "partial_reduction", "reduction", "thread", "subgroup")
# Names that IREE numbers anew whenever something in front of them changes.
_NAMES = re.compile(r"%[\w$.-]+(?:#\d+)?|#[A-Za-z_]+\d*\b|\^bb\d+")
_LOWERED = "#iree_codegen.no_pipeline"
_CUDA = '#hal.executable.target<"cuda", "cuda-nvptx-fb">'
_DESCRIBED_CUDA = """\
#hal.executable.target<"cuda", "cuda-nvptx-fb", {{iree_codegen.target_info = #iree_gpu.target<
  arch = "{arch}", features = "{features}", wgp = <
    compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8,
    subgroup = shuffle|arithmetic, dot = dp4xi8toi32,
    mma = [<NV_MMA_SYNC_F32_16x8x16_F16>, <NV_MMA_SYNC_F16_16x8x16_F16>,
           <NV_MMA_SYNC_F32_16x8x16_BF16>, <NV_MMA_SYNC_F32_16x8x32_F8E4M3FN>,
           <NV_MMA_SYNC_F32_16x8x32_F8E5M2>, <NV_WMMA_F32_16x16x16_F16>,
           <NV_WMMA_F16_16x16x16_F16>],
    subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 64],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = {shared},
    max_workgroup_counts = [2147483647, 65535, 65535]>>}}>"""
_UNINITIALIZED = "#util.uninitialized"
_PARAMETERS = ("#stream.parameter.", "#flow.parameter.")
_SHARED, _PRIVATE = "#gpu.address_space<workgroup>", "#gpu.address_space<private>"


def with_tensor(kind: ir.Type, old: ir.Type, new: ir.Type) -> ir.Type:
    """A type that holds a tensor, as that of a dispatch's argument, with `new` in its place."""
    return ir.Type.parse(str(kind).replace(str(old), str(new)), kind.context)


def iterators(kinds: Iterable[str]) -> ir.ArrayAttr:
    """The iterator types of a linalg op: `parallel` or `reduction` for each loop. Needs a current
    context."""
    return ir.ArrayAttr.get(
        [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    )


def iterator_kinds(attribute: ir.Attribute) -> list[str]:
    """What `iterators` takes, of the attribute that it makes."""
    return [
        "reduction" if "reduction" in str(kind) else "parallel" for kind in ir.ArrayAttr(attribute)
    ]


def entry(text: object, name: str, default: str = "") -> str:
    """The string of an entry `name = "..."`."""
    found = re.search(rf'\b{name} = "([^"]*)"', str(text))
    return found[1] if found else default


def number(text: object, name: str, default: int = 0) -> int:
    """The number of an entry `name = 64`."""
    found = re.search(rf"\b{name} = (\d+)", str(text))
    return int(found[1]) if found else default


def lists(text: object, name: str) -> list[list[Any]]:
    """All entries `name = [1, 2]` and `name = [[1, 2], [0, 1]]`."""
    return [json.loads(found) for found in re.findall(rf"\b{name} = ({_LIST})", str(text))]


def numbers(text: object, name: str) -> list[Any]:
    """The first of `lists`; an empty list where there is none."""
    return next(iter(lists(text, name)), [])


def array(text: object, name: str) -> list[int]:
    """The numbers of an entry `name = array<i64: 1, 2>`; an empty list where there is none."""
    found = re.search(rf"\b{re.escape(name)} = array<i64: ([0-9, ]+)>", str(text))
    return [int(word) for word in found[1].split(",")] if found else []


def behind(text: object, name: str) -> str:
    """What stands behind `name = `, to the end of the text; '' where it has no such entry."""
    return str(text).partition(f"{name} = ")[2]


def with_numbers(text: object, changes: Mapping[str, Callable[[list[Any]], list[Any]]]) -> str:
    """The text with the change of its name made to each entry `name = [...]`."""

    def write(found: re.Match[str]) -> str:
        return f"{found[1]} = {changes[found[1]](json.loads(found[2]))}"

    return re.sub(rf"\b({'|'.join(changes)}) = ({_LIST})", write, str(text))


def backends(target: object) -> list[str]:
    """The backends of the executable targets in a text, in its order."""
    return _BACKEND.findall(str(target))


def casts_to_halves(target: object) -> bool:
    """Whether the CPUs of `#hal.executable.target` attributes have instructions for casts to f16:
    x86 has them by F16C."""
    return "x86_64" not in str(target) or "+f16c" in entry(target, "cpu_features").split(",")


def with_cuda_described(targets: str, arch: str, features: str, shared_memory_bytes: int) -> str:
    """A text with a description of each CUDA target that has none: sm_90 with the tensor-core
    instructions of sm_89, which all later ones have."""
    described = _DESCRIBED_CUDA.format(arch=arch, features=features, shared=shared_memory_bytes)
    return targets.replace(_CUDA, described)


def mma_instruction(configuration: object) -> str:
    """The matrix instruction that a lowering configuration names; '' for none."""
    found = _MMA.search(str(configuration))
    return found[1] if found else ""


def is_hidden(op: ir.Operation) -> bool:
    """Whether a function or a global is private."""
    name = "sym_visibility"
    return name in op.attributes and "private" in str(op.attributes[name])


def is_for_cpu(configuration: object) -> bool | None:
    """Whether a configuration is one for CPUs, or for GPUs; None where it says neither."""
    text = str(configuration)
    return True if "#iree_cpu." in text else False if "#iree_gpu." in text else None


def ptx_version(target: object) -> int:
    """The PTX version times ten of features such as `+ptx76`, the last of them; 0 for none."""
    return int((_PTX.findall(str(target)) or ["0"])[-1])


def pipeline(info: object) -> str:
    """The pipeline of IREE's that a translation info names; '' for none."""
    found = _PIPELINE.search(str(info))
    return found[0] if found else ""


def gpu_lowering(*entries: str, **lists: object) -> str:
    """A lowering configuration for GPUs of these entries, and of lists by their names."""
    texts = [*entries, *(f"{name} = {numbers}" for name, numbers in lists.items())]
    return f"#iree_gpu.lowering_config<{{{', '.join(texts)}}}>"


def compilation_info(
    lowering: str, pipeline: str, threads: int = 0, subgroup: int = 0, options: str = ""
) -> str:
    """What an op is compiled by: a lowering configuration and a pipeline of IREE's; for GPUs with
    the threads of a workgroup and of a subgroup, and with `options` of the pipeline."""
    sizes = f" workgroup_size = [{threads}, 1, 1] subgroup_size = {subgroup}" if threads else ""
    return (
        f"#iree_codegen.compilation_info<lowering_config = {lowering}, translation_info = "
        f"#iree_codegen.translation_info<pipeline = {pipeline}{sizes}{options}>>"
    )


def with_pipeline(info: object, name: str = _LOWERED) -> str:
    """A translation info with another pipeline; by default with none, as of a lowered kernel."""
    return _PIPELINE.sub(name, str(info))


def with_threads(info: object, threads: int, subgroup: int) -> str:
    """A translation info with workgroups of so many threads, in subgroups of that size."""
    text = with_numbers(info, {"workgroup_size": lambda _: [threads, 1, 1]})
    if "subgroup_size" in text:
        return text
    return re.sub(r"(workgroup_size = \[[^\]]*\])", rf"\1 subgroup_size = {subgroup}", text)


def says_lowered(info: object) -> bool:
    """Whether a translation info says that its kernel is lowered."""
    return _LOWERED in str(info)


def assumptions(case: object) -> dict[str, int]:
    """The `umin`, `umax` and `udiv` of an integer assumption, those that it has."""
    return {word: int(value) for word, value in _ASSUMED.findall(str(case))}


def is_elided(attribute: ir.Attribute | None) -> bool:
    """Whether an attribute stands for numbers that were left out when it was printed."""
    # Others have classes of their own, and may be long.
    return type(attribute) is ir.Attribute and "<__elided__>" in str(attribute)


def leaves_nan_out(op: ir.Operation) -> bool:
    """Whether a reduction of vectors finds the largest or least of those that are numbers."""
    return any(f"<{word}>" in str(op.attributes["kind"]) for word in ("maxnumf", "minnumf"))


def is_shared(kind: object) -> bool:
    """Whether a memref type, or its memory space, is a GPU's shared memory."""
    return _SHARED in str(kind)


def is_strided(kind: object) -> bool:
    """Whether a memref's type has strides."""
    return "strided<" in str(kind)


def is_known(kind: object) -> bool:
    """Whether a type says all of its sizes."""
    return "?" not in str(kind)


def is_private(kind: object) -> bool:
    """Whether a memref type is a thread's own memory."""
    return _PRIVATE in str(kind)


def is_part(affine_map: object) -> bool:
    """Whether an affine map divides, rounding up."""
    return "ceildiv" in str(affine_map)


def subtracts(affine_map: object, dim: int) -> bool:
    """Whether one of an affine map's results begins with minus this dim."""
    return f"-d{dim} " in str(affine_map)


def is_of_dialect(kind: object, dialect: str) -> bool:
    """Whether a type is one of this dialect's."""
    return str(kind).startswith(f"!{dialect}.")


def is_resource(attribute: object) -> bool:
    """Whether a constant's value is the name of a blob."""
    return str(attribute).startswith("dense_resource<")


def first_blob(module: str) -> bytes | None:
    """The elements of the first blob of a printed module, behind four bytes that are its alignment;
    None where it has none."""
    start = module.find('"0x', module.find("dialect_resources"))
    end = module.find('"', start + 3)
    if start < 0 or "dialect_resources" not in module:
        return None
    return bytes.fromhex(module[start + 3 : end])[4:]


def is_uninitialized(value: object) -> bool:
    """Whether a global's initial value is none."""
    return str(value).startswith(_UNINITIALIZED)


def uninitialized(kind: ir.Type) -> ir.Attribute:
    """The initial value of a global of this type that has none."""
    return ir.Attribute.parse(f"{_UNINITIALIZED} : {kind}")


def parameter(value: object) -> str:
    """The name of the parameter that an initial value is, with its scope; '' for all others."""
    text = str(value)
    return text.partition("<")[2].rpartition("> :")[0] if text.startswith(_PARAMETERS) else ""


def torch_element(kind: object) -> str:
    """The element type of a `!torch.vtensor<[2,?],f16>`; '' of all other types."""
    found = re.fullmatch(r"!torch\.vtensor<\[[^\]]*\],(\w+)>", str(kind))
    return found[1] if found else ""


def torch_shape(kind: object) -> list[int | None]:
    """The sizes in a `!torch.vtensor` type, None for those known only at run time."""
    found = re.match(r"!torch\.vtensor<\[([^\]]*)\]", str(kind))
    words = found[1].split(",") if found and found[1] else []
    return [None if word == "?" else int(word) for word in words]


def torch_tensor(sizes: Sequence[int | None], element: str) -> ir.Type:
    """The `!torch.vtensor` type of these sizes and elements."""
    words = ",".join("?" if size is None else str(size) for size in sizes)
    return ir.Type.parse(f"!torch.vtensor<[{words}],{element}>")


def numbered_dims(attribute: object) -> dict[str, list[int]]:
    """The lists of dims in an attribute such as `#stablehlo.scatter<update_window_dims = [1, 2],
    index_vector_dim = 1>`, by their names; a number is a list of one."""
    found = re.findall(r"(\w+) = (?:\[([\d, ]*)\]|(\d+))", str(attribute))
    return {
        name: [int(word) for word in (one or many).split(",") if word.strip()]
        for name, many, one in found
    }


def with_torch_element(kind: ir.Type, element: str) -> ir.Type:
    """A `!torch.vtensor` of other elements; all other types as they are."""
    old = torch_element(kind)
    text = str(kind).replace(f"],{old}>", f"],{element}>")
    return ir.Type.parse(text, kind.context) if old else kind


def inside(kind: object) -> str:
    """What stands between the brackets of a type: `8x?x16xf32` of a tensor's."""
    return str(kind).partition("<")[2].removesuffix(">")


def redeclared(declaration: str, name: str, old: object, new: object) -> str:
    """IREE's declaration of a function for callers with another type of `name`."""
    return re.sub(rf"({re.escape(name)}: ){re.escape(str(old))}", rf"\g<1>{new}", declaration)


def configuration_words(text: object) -> str:
    """A compilation info for a reader: its tiles (0: a dim that is not cut), threads, pipeline.

    Text that is none comes back as it is."""
    found = [
        f"{name} tiles {_sizes(sizes)}"
        for name in _TILED
        if any(sizes := [size for size in numbers(text, name) if not isinstance(size, list)])
    ]
    if promoted := numbers(text, "promote_operands"):
        found.append(f"operands {', '.join(map(str, promoted))} in shared memory")
    if instruction := mma_instruction(text):
        found.append(instruction)
    if threads := numbers(text, "workgroup_size"):
        subgroup = number(text, "subgroup_size")
        within = f" in subgroups of {subgroup}" if subgroup else ""
        found.append(f"{math.prod(threads)} threads{within}")
    if pipeline := re.search(r"pipeline<(\w+)>", str(text)):
        found.append(pipeline[1])
    return ", ".join(found) or str(text)


def _sizes(sizes: list[int]) -> str:
    return "x".join(str(size) for size in sizes)


def lines_without_maps(module: str) -> list[str]:
    """The lines of a printed module that hold anything but a map, whose numbers every change makes
    others."""
    return [line for line in module.splitlines() if line.strip() and not line.startswith("#map")]


def comparable(line: str) -> str:
    """A line of IR without the names of values, blocks and aliases."""
    return _NAMES.sub("%", line)
