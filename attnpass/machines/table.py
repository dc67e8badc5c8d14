"""Tables of tuned configurations: JSON files that attn-tune writes and attn-configure reads.

    {"format": "attnpass-attention-table", "version": 1, "entries": [
      {"target": "cuda sm_80",
       "attention": {"kind": "attention", "dims": 5, "operands": {
          "query": {"type": "tensor<32x4096x128xf16>", "map": [0, 1, 3]}, ...,
          "scale": {"type": "f16"}}},
       "configuration": {"compilation_info": "#iree_codegen...", "decomposition_config": "..."},
       "choice": "128 rows, 64 keys, ...", "measured": {"ms": 1.54, ...}}]}

An entry holds for attention of exactly its kind, types and maps (iteration dims are numbered
as in the op's indexing maps), compiled for exactly its target. An empty `configuration` leaves
the op to IREE. `choice` and `measured` are for readers.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..attention.facts import AttentionFacts
from ..errors import AttnError
from .cpu.loops import MARK, LoopTiles

if TYPE_CHECKING:
    from iree.compiler import ir

FORMAT, VERSION = "attnpass-attention-table", 1
# What a configuration may set; the lists of the first have one number for each iteration dim.
ATTRIBUTES = ("compilation_info", "decomposition_config")
# Of one workgroup, on all GPUs that IREE compiles for.
_MOST_THREADS = 1024
_TILES = (
    "workgroup",
    "reduction",
    "partial_reduction",
    "distribution",
    "vector_common_parallel",
    "vector_reduction",
)

Signature = dict[str, Any]


def signature(facts: AttentionFacts) -> Signature:
    """What an entry must equal to hold for this attention, as plain JSON data."""
    operands: dict[str, Any] = {}
    for name in facts.operand_names:
        operands[name] = {"type": str(facts.value(name).type)}
        if name != "scale":
            operands[name]["map"] = list(facts.map_of(name))
    found: Signature = {"kind": facts.kind, "dims": facts.num_dims, "operands": operands}
    if facts.changes_scores:
        found["score"] = facts.score_steps
    return found


@dataclass(frozen=True)
class Entry:
    """The configuration of one attention on one target; `measured` in milliseconds."""

    target: str
    attention: Signature
    configuration: dict[str, str]
    choice: str = ""
    measured: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """The entries of a file, which `source` names in reports."""

    source: str
    entries: tuple[Entry, ...]

    def without(self, target: str) -> str:
        """The targets that there are entries for, in words; '' where this is one of them."""
        targets = {entry.target for entry in self.entries}
        return "" if target in targets else ", ".join(sorted(targets)) or "no target"

    def find(self, facts: AttentionFacts, target: str) -> Entry | None:
        """The entry for this attention on the target of this name; a later one wins."""
        if facts.score_steps is None:
            return None
        wanted = signature(facts)
        for entry in reversed(self.entries):
            if entry.target == target and entry.attention == wanted:
                return entry
        return None


def table_text(entries: list[Entry]) -> str:
    """The file that holds these entries."""
    data = {"format": FORMAT, "version": VERSION, "entries": [asdict(entry) for entry in entries]}
    return json.dumps(data, indent=1) + "\n"


def load_table(path: str, context: ir.Context) -> Table:
    """The table in a file; AttnError, with its place, for one that is none or is damaged.

    Every configuration is parsed in `context` and its lists are counted: IREE verifies
    neither, and computes wrong numbers where a list has another length than the op has dims.
    """
    table = read_table(path)
    for number, entry in enumerate(table.entries, 1):
        _check_configuration(entry, f"entry {number}", path, context)
    return table


def read_table(path: str) -> Table:
    """`load_table` without a look at the configurations."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
    except OSError as error:
        raise AttnError(f"cannot read the table: {(error.strerror or '').lower()}", path) from None
    except UnicodeDecodeError:
        raise AttnError("no table: it is not text", path) from None
    except json.JSONDecodeError as error:
        raise AttnError(f"no table: {error.msg}", f"{path}:{error.lineno}:{error.colno}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise AttnError(f'no table: it has no "format": "{FORMAT}"', path)
    if data.get("version") != VERSION:
        raise AttnError(f"a table of version {data.get('version')}; this reads {VERSION}", path)
    found = data.get("entries")
    if not isinstance(found, list):
        raise AttnError('no table: "entries" is no list', path)
    entries = [_entry(raw, f"entry {number}", path) for number, raw in enumerate(found, 1)]
    return Table(path, tuple(entries))


def _entry(raw: Any, name: str, path: str) -> Entry:
    kinds = {"target": str, "attention": dict, "configuration": dict}
    kinds |= {"choice": str, "measured": dict}
    if not isinstance(raw, dict):
        raise AttnError(f"{name} is no object", path)
    for key, kind in kinds.items():
        required = key not in ("choice", "measured")
        if (key in raw or required) and not isinstance(raw.get(key), kind):
            word = "text" if kind is str else "an object"
            raise AttnError(f'{name}: "{key}" is missing or not {word}', path)
    unknown = sorted(set(raw) - set(kinds))
    if unknown:
        raise AttnError(f'{name}: unknown key "{unknown[0]}"', path)
    return Entry(**raw)


def _check_configuration(entry: Entry, name: str, path: str, context: ir.Context) -> None:
    from iree.compiler import ir

    from ..ir import printed

    for key, text in entry.configuration.items():
        if key not in ATTRIBUTES or not isinstance(text, str):
            allowed = " and ".join(ATTRIBUTES)
            raise AttnError(f'{name}: "{key}" is not one of {allowed}, as text', path)
        try:
            ir.Attribute.parse(text, context)
        except ir.MLIRError as error:
            why = next((d.message for d in error.error_diagnostics), "it does not parse")
            raise AttnError(f'{name}: "{key}": {why.splitlines()[0]}', path) from None
    if entry.configuration and ATTRIBUTES[0] not in entry.configuration:
        raise AttnError(f'{name}: "{ATTRIBUTES[0]}" is missing', path)
    if why := _misfit(entry.target, " ".join(entry.configuration.values())):
        raise AttnError(f"{name}: {why}", path)
    parts = entry.configuration.get("decomposition_config", "")
    if MARK in parts and not _are_tiles(printed.array(parts, MARK)):
        raise AttnError(f"{name}: {MARK} needs {len(fields(LoopTiles))} numbers from 1 on", path)
    dims = entry.attention.get("dims")
    tiles = entry.configuration.get("compilation_info", "")
    for word in _TILES:
        for numbers in printed.lists(tiles, word):
            if len(numbers) != dims:
                why = f"{word} has {len(numbers)} numbers for {dims} dims"
                raise AttnError(f"{name}: {why}", path)


def _misfit(target: str, configuration: str) -> str:
    """Why no machine of this target's kind can run a configuration; '' where one may."""
    from ..ir import printed

    on_cpu = target.startswith("llvm-cpu")
    if printed.is_for_cpu(configuration) is (not on_cpu):
        return f"a configuration for {'GPUs' if on_cpu else 'CPUs'}, but the target is '{target}'"
    threads = math.prod(printed.numbers(configuration, "workgroup_size"))
    lanes = printed.number(configuration, "subgroup_size", 1)
    if threads > _MOST_THREADS:
        return f"{threads} threads a workgroup, of which GPUs run at most {_MOST_THREADS}"
    if threads > 1 and threads % lanes:
        return f"{threads} threads are no whole number of subgroups of {lanes}"
    return ""


def _are_tiles(numbers: list[int]) -> bool:
    if len(numbers) != len(fields(LoopTiles)):
        return False
    tiles = LoopTiles(*numbers)
    # Without vectors of rows, a few rows go one by one.
    return all(astuple(replace(tiles, row_vectors=tiles.row_vectors or 1)))
