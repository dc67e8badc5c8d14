"""attn-pad-keys: whole kernel tiles of keys, the added ones masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..passes import Pass, PassContext, option

if TYPE_CHECKING:
    from iree.compiler import ir

    from ..attention.facts import AttentionFacts
    from ..ir import Builder


@dataclass(frozen=True)
class PadKeys(Pass):
    """Pads K, V and the mask where attn-configure has a kernel for a few more keys only.

    IREE 3.13 has no tensor-core kernel for a number of keys that fills no tile: on an H200
    1333 keys take 69 ms where 1344 take under one. K and V get zeros and the mask hides
    them. Only a known number of keys is padded.
    """

    name: ClassVar[str] = "attn-pad-keys"
    summary: ClassVar[str] = "GPUs: keys that fill no kernel tile get masked ones added"
    backends: ClassVar[tuple[str, ...]] = ("cuda", "rocm")

    target: str = option("", "target to decide for, instead of the module's own")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        from ..machines.configurations import padded_keys

        target = context.target_for(module, self.target)
        if target is None:
            return False

        def replace(facts: AttentionFacts) -> str | None:
            keys = padded_keys(facts, target)
            if keys is None:
                return None
            _pad(facts, keys)
            return (
                f"{facts.sizes[facts.k2[0]]} keys are padded to {keys}, whole kernel tiles, "
                "the added ones masked"
            )

        return context.replace_attention(module, replace)


def _pad(facts: AttentionFacts, keys: int) -> None:
    """Gives the users of an attention the same one over `keys` keys."""
    from ..attention.masks import attend_under
    from ..ir import Builder, element_type

    (k2,) = facts.k2
    build = Builder(facts.op)
    key, value = (_padded(facts, name, keys, build) for name in ("key", "value"))
    if facts.has_mask:
        mask, positions = _padded(facts, "mask", keys, build), facts.map_of("mask")
    else:
        old = facts.sizes[k2]
        assert old is not None
        seen = build.all_true([old])
        hidden = build.constant_number(0, element_type(seen))
        kind = build.tensor_type([keys], element_type(seen))
        mask, positions = build.pad(seen, kind, [0], [keys - old], hidden), (k2,)
    attend_under(facts, mask, positions, {"key": key, "value": value})


def _padded(facts: AttentionFacts, name: str, keys: int, build: Builder) -> ir.Value:
    """An operand with keys added: zeros, or what hides them in a mask."""
    from ..ir import element_type, is_float
    from .padding import pad_behind

    value = facts.value(name)
    hides = float("-inf") if name == "mask" and is_float(element_type(value)) else 0
    for dim, position in enumerate(facts.map_of(name)):
        old = facts.sizes[position] if position is not None else None
        if position in facts.k2 and old is not None:
            value = pad_behind(build, value, dim, keys - old, hides)
    return value
