"""Which attention kernels there are for Hopper: what each computes, and how large its tiles are.

`build_kernels.py` builds them, and their manifest has them in the order of `variants`. Those of
`Variant`, `DecodeVariant` and `CombineVariant` have sources in Gluon and Triton, those of the
classes below `CudaVariant` in CUDA.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

TYPES = {"f16": "*fp16", "bf16": "*bf16", "f32": "*fp32"}
TYPES |= {"f8E4M3FN": "*fp8e4nv", "f8E5M2": "*fp8e5"}
MASK_TYPES = {"none": "*i8", "f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "i8": "*i8"}
# One row of keys for all rows.
MASK_TYPES |= {"keys": "*fp32"}
MASK_WIDTHS = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1}
POINTERS = ("query", "key", "value", "mask", "sinks", "output", "scratch")
CONSTANTS = ("rows", "keys", "group", "diagonal")
# Where the operands of prefill kernels lie, and the result: see hopper_attention.py.
STRIDE_CONSTANTS = (
    "batch_heads",
    *(
        f"{name}_{part}"
        for name in ("query", "key", "value")
        for part in ("start", "batch", "head", "row")
    ),
    *(f"output_{part}" for part in ("batch", "head", "row")),
)
# What only some kernels take.
WINDOW_CONSTANTS = ("behind",)
MASK_CONSTANTS = ("mask_stride", "mask_divisor", "mask_count")
SINK_CONSTANTS = ("sink_count",)
# Which rows and keys there are, and who computes what: see hopper_decode.py.
DECODE_CONSTANTS = ("heads", "rows", "keys", "group", "diagonal", "behind", "blocks")
PIECES = ("first_tile", "tiles", "per_program", "slots")
# Where the latents and the columns that V lacks lie: see hopper_latent.py.
LATENT_CONSTANTS = ("key_start", "key_head", "key_row", "rest_start", "rest_head", "rest_row")
# How many workgroups may divide the keys.
DIVIDED_PARTS, MASKED_PARTS = (1, 2, 3, 4, 6, 8), (2, 4, 8)
CACHED_PARTS = (1, 2, 4, 8)
# Of kernels of one warp, by head dim: workgroups that share a multiprocessor, without masks and
# with them.
LONE_RESIDENTS = {32: (24, 16), 64: (16, 16), 128: (12, 8)}
# Head dims of kernels for few keys.
SHORT_HEADS = (64, 96, 128)
# Head dims of kernels for blocks of rows over few keys; keys of a tile, warpgroups, tiles ahead.
BLOCKS = {64: (128, 1, 3), 80: (80, 1, 2), 96: (128, 2, 3), 128: (128, 2, 3)}


def fields(
    kind: str,
    types: Sequence[str],
    head_dims: tuple[int, int],
    mask: str = "none",
    hides: str = "none",
    **more: Any,
) -> dict[str, Any]:
    """What the manifest says about a kernel of this kind: the types of Q, K, V and the result, the
    head dims of Q and V, the type of a mask or what else hides keys, and `more`."""
    names = ("element_type", "cache_type", "value_type", "output_type")
    return {
        "kind": kind,
        **dict(zip(names, types, strict=True)),
        "head_dims": list(head_dims),
        "v_layout": "row-major",
        "mask": "operand" if mask != "none" else hides,
        "mask_type": mask,
        **more,
    }


@dataclass(frozen=True)
class Variant:
    """A prefill kernel: what it computes, and the tile sizes it is built with.

    `value_type` is V's element type and `value_dim` its head dim, if not those of Q and K; kernels
    that are `padded` are told the head dim, which may be smaller. `parts` is the number of
    warpgroups of 64 rows. Where there are `mask_stages` of a mask's tiles in shared memory, its
    rows must be aligned to 16 bytes. Of kernels for 8 bits (hopper_fp8) each multiprocessor runs
    one program; those for f32 (hopper_f32) find their tiles without descriptors.
    """

    source: str
    element_type: str
    output_type: str
    head_dim: int
    causal: bool
    v_transposed: bool
    options: tuple[tuple[str, int], ...]
    window: bool = False
    mask: str = "none"
    parts: int = 2
    mask_stages: int = 0
    soft_cap: bool = False
    q_stages: int = 0
    value_type: str = ""
    lazy: bool = False
    value_dim: int = 0
    padded: bool = False
    sink: bool = False

    function, gluon, num_warps = "attention", True, 4

    @property
    def name(self) -> str:
        words = [self.element_type.lower()]
        words += [self.value_type.lower()] if self.value_type else []
        words += [f"d{self.head_dim}" + (f"x{self.value_dim}" if self.value_dim else "")]
        words += ["wide"] if self.parts > 2 else []
        words += ["vt"] if self.v_transposed else []
        words += ["causal"] if self.causal and not self.window else []
        words += ["window"] if self.window else []
        words += [f"mask_{self.mask}"] if self.mask != "none" else []
        words += ["aligned"] if self.mask_stages else []
        words += ["cap"] if self.soft_cap else []
        words += ["sink"] if self.sink else []
        return "attention_" + "_".join(words)

    @property
    def is_narrow(self) -> bool:
        return self.source == "hopper_fp8"

    @property
    def pointers(self) -> tuple[str, ...]:
        lacks = {"mask"} if self.mask == "none" else set()
        lacks |= set() if self.sink else {"sinks"}
        lacks |= {"scratch"} if self.source == "hopper_f32" else set()
        return tuple(name for name in POINTERS if name not in lacks)

    @property
    def constants(self) -> tuple[str, ...]:
        window = WINDOW_CONSTANTS if self.window else ()
        if self.is_narrow:
            sinks = SINK_CONSTANTS if self.sink else ()
            return (*CONSTANTS, *window, "heads", *sinks, "columns", "scale")
        names = [*CONSTANTS, *(["heads"] if self.q_stages else []), *window]
        names += MASK_CONSTANTS[self.mask == "keys" :] if self.mask != "none" else ()
        names += SINK_CONSTANTS if self.sink else ()
        names += [*STRIDE_CONSTANTS, *(["columns"] if self.padded else []), "scale"]
        return (*names, *(["cap"] if self.soft_cap else []))

    @property
    def types(self) -> dict[str, str]:
        own, value = TYPES[self.element_type], TYPES[self.value_type or self.element_type]
        kinds = {"query": own, "key": own, "value": value, "mask": MASK_TYPES[self.mask]}
        return kinds | {"sinks": TYPES["f32"], "output": TYPES[self.output_type]}

    @property
    def values(self) -> dict[str, int]:
        return {
            "HEAD": self.head_dim,
            "V_HEAD": self.value_dim or self.head_dim,
            "PADDED": self.padded,
            "CAUSAL": self.causal,
            "V_TRANSPOSED": self.v_transposed,
            "WINDOW": self.window,
            "MASK": _mask_number(self.mask),
            "PARTS": self.parts,
            "MASK_STAGES": self.mask_stages,
            "CAP": self.soft_cap,
            "PERSISTENT": bool(self.q_stages),
            "Q_STAGES": max(self.q_stages, 1),
            "LAZY": self.lazy,
            "SINK": self.sink,
            **dict(self.options),
        }

    @property
    def fields(self) -> dict[str, Any]:
        # TMA wants 16-byte strides: V^T and masks have rows of `keys` elements.
        widths = [2] if self.v_transposed else []
        widths += [MASK_WIDTHS[self.mask]] if self.mask_stages else []
        multiple = 16 if self.is_narrow else 16 // min(widths, default=16)
        own, hides = self.element_type, "causal" if self.causal else "none"
        hides = "window" if self.window else hides
        found = fields(
            "prefill",
            (own, own, self.value_type or own, self.output_type),
            (self.head_dim, self.value_dim or self.head_dim),
            "none" if self.mask == "keys" else self.mask,
            "keys" if self.mask == "keys" else hides,
            v_layout="transposed" if self.v_transposed else "row-major",
            soft_cap=self.soft_cap,
            keys_multiple=multiple,
            rows_per_workgroup=64 * self.parts,
            **({"programs_per_unit": 1} if self.q_stages or self.is_narrow else {}),
            **({"sink": True} if self.sink else {}),
            **({"settles_unseen": True} if self.mask != "none" else {}),
        )
        return found | ({"mask_type": "f32"} if self.mask == "keys" else {})


@dataclass(frozen=True)
class DecodeVariant:
    """A kernel for few rows over a cache, in tiles of `keys`; `programs` of it share a
    multiprocessor. Where V has a head dim of its own, `value_dim`, it is the first columns of K,
    which are latents."""

    element_type: str
    cache_type: str
    head_dim: int
    mask: str
    keys: int
    programs: int
    value_dim: int = 0

    function, gluon, num_warps = "attention", True, 4

    @property
    def kind(self) -> str:
        return "latent" if self.value_dim else "decode"

    @property
    def source(self) -> str:
        return f"hopper_{self.kind}"

    @property
    def name(self) -> str:
        words = [self.element_type.lower()]
        words += [self.cache_type.lower()] if self.cache_type != self.element_type else []
        words += [f"d{self.head_dim}" + (f"x{self.value_dim}" if self.value_dim else "")]
        words += [f"mask_{self.mask}"] if self.mask != "none" else []
        return "_".join([self.kind, *words])

    @property
    def pointers(self) -> tuple[str, ...]:
        mask = ["mask"] if self.mask != "none" else []
        value = "rest" if self.value_dim else "value"
        return ("query", "key", value, *mask, "partial", "stats", "scratch")

    @property
    def constants(self) -> tuple[str, ...]:
        names = [*DECODE_CONSTANTS, *PIECES, *(LATENT_CONSTANTS if self.value_dim else ())]
        return (*names, *(MASK_CONSTANTS if self.mask != "none" else ()), "scale", "cap")

    @property
    def types(self) -> dict[str, str]:
        kinds = dict.fromkeys(self.pointers[1:3], TYPES[self.cache_type])
        kinds |= dict.fromkeys(("partial", "stats"), "*fp32")
        return kinds | {"query": TYPES[self.element_type], "mask": MASK_TYPES[self.mask]}

    @property
    def values(self) -> dict[str, int]:
        sizes = {"KEYS": self.keys, "MASK": _mask_number(self.mask)}
        if not self.value_dim:
            return {**sizes, "HEAD": self.head_dim, "STAGES": 3, "WARPS": self.num_warps}
        sizes |= {"LATENT": self.value_dim, "REST_COLUMNS": self.head_dim - self.value_dim}
        return {**sizes, "STAGES": 2, "REGISTERS": 232}

    @property
    def fields(self) -> dict[str, Any]:
        output = "f16" if self.element_type.startswith("f8") else self.element_type
        return fields(
            self.kind,
            (self.element_type, self.cache_type, self.cache_type, output),
            (self.head_dim, self.value_dim or self.head_dim),
            self.mask,
            soft_cap=True,
            keys_multiple=1,
            rows_per_workgroup=64 if self.value_dim else 16,
            keys_per_tile=self.keys,
            programs_per_unit=self.programs,
        )


@dataclass(frozen=True)
class CombineVariant:
    """The kernel that adds up what the programs of a decode kernel found, whose units have `height`
    rows (0: it is told) and a row `columns` for each program, from `slots` slots at a time, or from
    `few` where there are no more."""

    output_type: str
    head_dim: int
    height: int = 16
    few: int = 8
    slots: int = 128
    columns: int = 32
    sink: bool = False

    source = "hopper_decode"
    function, gluon, num_warps = "combine", False, 4

    @property
    def pointers(self) -> tuple[str, ...]:
        return ("partial", "stats", *(["sinks"] if self.sink else []), "output")

    @property
    def name(self) -> str:
        words = [self.output_type, f"d{self.head_dim}"]
        # Of units that are told their height there are kernels of several widths.
        words += [f"by{self.columns}"] if not self.height and self.columns < self.head_dim else []
        words += ["sink"] if self.sink else []
        return "combine_" + "_".join(words)

    @property
    def constants(self) -> tuple[str, ...]:
        height = [] if self.height else ["height"]
        sinks = ("sink_rows", *SINK_CONSTANTS) if self.sink else ()
        return ("rows", "blocks", *height, *PIECES[1:], *sinks)

    @property
    def types(self) -> dict[str, str]:
        kinds = dict.fromkeys(("partial", "stats", "sinks"), "*fp32")
        return {**kinds, "output": TYPES[self.output_type]}

    @property
    def values(self) -> dict[str, int]:
        height = {"height": self.height} if self.height else {}
        slots = {"FEW": self.few, "SLOTS": self.slots}
        sizes = {"HEAD": self.head_dim, **slots, "COLUMNS": self.columns}
        return {**sizes, "SINK": self.sink, **height}

    @property
    def fields(self) -> dict[str, Any]:
        more: dict[str, Any] = {"sink": True} if self.sink else {}
        return fields(
            "combine",
            (*["f32"] * 3, self.output_type),
            (self.head_dim, self.head_dim),
            keys_multiple=1,
            rows_per_workgroup=1,
            columns_per_workgroup=self.columns,
            **more,
        )


@dataclass(frozen=True)
class CudaVariant:
    """A kernel whose source is CUDA's, as those of kernels for products are, for `rows` rows of
    attention, in tiles of `keys`. Subclasses say what they share keys and rows by, and have the
    bytes of `shared_memory` and the `threads` of a workgroup."""

    element_type: str
    head_dim: int
    keys: int

    kind, source, scratch = "", "", 0
    mask, sink, soft_cap = "none", False, False

    @property
    def rows(self) -> int:
        return 64

    @property
    def threads(self) -> int:
        return 256

    @property
    def shared_memory(self) -> int:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[str, ...]:
        """What the name has of the kernel's shape, beside the head dim."""
        return ()

    @property
    def name(self) -> str:
        words = [self.kind, self.element_type, f"d{self.head_dim}", *self.shape]
        words += [f"mask_{self.mask}"] if self.mask != "none" else []
        return "_".join([*words, *(["sink"] if self.sink else [])])

    @property
    def sizes(self) -> dict[str, int]:
        """Names of the source that are numbers, beside those that all have."""
        return {}

    @property
    def defines(self) -> dict[str, int]:
        own = {"ELEMENT": int(self.element_type == "bf16"), "HEAD": self.head_dim}
        return {**own, "KEYS": self.keys, **self.sizes}

    @property
    def constants(self) -> tuple[str, ...]:
        masks = MASK_CONSTANTS if self.mask != "none" else ()
        masks += ("sink_rows", *SINK_CONSTANTS) if self.sink else ()
        first = (*CONSTANTS, "heads", *WINDOW_CONSTANTS, *masks)
        return (*first, *STRIDE_CONSTANTS, "columns", "scale", *(["cap"] if self.soft_cap else []))

    @property
    def shares(self) -> dict[str, int]:
        """What the manifest says of workgroups, beside rows and keys."""
        return {}

    @property
    def fields(self) -> dict[str, Any]:
        cap: dict[str, Any] = {"soft_cap": True} if self.soft_cap else {}
        sink: dict[str, Any] = {"sink": True} if self.sink else {}
        return fields(
            self.kind,
            [self.element_type] * 4,
            (self.head_dim, self.head_dim),
            self.mask,
            **cap,
            keys_multiple=1,
            rows_per_workgroup=self.rows,
            keys_per_tile=self.keys,
            **self.shares,
            **sink,
        )


@dataclass(frozen=True)
class DividedVariant(CudaVariant):
    """A kernel for blocks of 64 rows, whose keys `parts` workgroups divide."""

    parts: int
    stages: int
    mask: str = "none"

    kind, source, scratch = "divided", "divided.cu", 256
    soft_cap = True

    @property
    def threads(self) -> int:
        return 384

    @property
    def shape(self) -> tuple[str, ...]:
        return (f"by{self.parts}",)

    @property
    def sizes(self) -> dict[str, int]:
        own = {"ROWS": self.rows, "PARTS": self.parts, "STAGES": self.stages}
        return {**own, "MASK": _cuda_mask(self.mask)}

    @property
    def shared_memory(self) -> int:
        """Bytes of tiles of K and V, of Q, descriptors, barriers, and sums; aligned."""
        tiles = self.stages * 2 * self.keys * self.head_dim * 2
        return 1023 + tiles + self.rows * self.head_dim * 2 + 256 + 32 * self.stages + 1024

    @property
    def shares(self) -> dict[str, int]:
        return {"cluster": self.parts}


@dataclass(frozen=True)
class ShortVariant(CudaVariant):
    """A kernel for blocks of 64 rows over few keys, with `stages` tiles of them for each of two
    warpgroups."""

    keys: int = 64
    stages: int = 3

    kind, source = "short", "short.cu"

    @property
    def sizes(self) -> dict[str, int]:
        return {"STAGES": self.stages}

    @property
    def shared_memory(self) -> int:
        """Bytes of tiles of K and V, of Q, in whole boxes of 64 columns, and sums; aligned."""
        row = -(-self.head_dim // 64) * 128
        return 1023 + 2 * self.stages * 2 * self.keys * row + 64 * row + 4096


@dataclass(frozen=True)
class BlocksVariant(CudaVariant):
    """A kernel for blocks of rows over few keys, 64 for each of `parts` warpgroups, `stages` tiles
    ahead."""

    parts: int
    stages: int

    kind, source = "blocks", "blocks.cu"

    @property
    def threads(self) -> int:
        return 128 * (self.parts + 1)

    @property
    def rows(self) -> int:
        return 64 * self.parts

    @property
    def sizes(self) -> dict[str, int]:
        return {"PARTS": self.parts, "STAGES": self.stages}

    @property
    def shared_memory(self) -> int:
        """Bytes of tiles of K and V, and of Q, in whole boxes of 64 columns, and barriers;
        aligned."""
        row = -(-self.head_dim // 64) * 128
        return 1023 + (self.rows + 2 * self.stages * self.keys) * row + 32 * self.stages

    @property
    def shares(self) -> dict[str, int]:
        return {"programs_per_unit": 3 - self.parts}


@dataclass(frozen=True)
class CachedVariant(CudaVariant):
    """A kernel for up to 16 rows over a cache, whose keys `parts` workgroups divide, and in each
    `warps` warps; `resident` workgroups run on a multiprocessor."""

    parts: int
    warps: int
    resident: int
    mask: str = "none"
    sink: bool = False

    kind, source = "cached", "cached.cu"
    stages, soft_cap = 2, True

    @property
    def rows(self) -> int:
        return 16

    @property
    def shape(self) -> tuple[str, ...]:
        return (f"by{self.parts}",)

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def sizes(self) -> dict[str, int]:
        own = {"PARTS": self.parts, "WARPS": self.warps, "STAGES": self.stages}
        more = {"RESIDENT": self.resident, "MASK": _cuda_mask(self.mask)}
        return own | more | {"SINK": int(self.sink)}

    @property
    def shared_memory(self) -> int:
        """Bytes of tiles of K and V, of Q, of rows' numbers, and of what others give: their
        numbers, sums in 16 bytes, and a barrier."""
        row = self.head_dim * 2
        tiles = self.warps * self.stages * 2 * self.keys * row
        given = self.parts * (128 + 16) + self.rows * 2 * row + 16
        return tiles + self.rows * row + self.warps * 128 + given

    @property
    def shares(self) -> dict[str, int]:
        return {"programs_per_unit": self.resident, "cluster": self.parts}


@dataclass(frozen=True)
class LoneVariant(CachedVariant):
    """The same for many heads of few keys: one warp a workgroup, for 16 of a head's rows."""

    kind = "lone"

    @property
    def shape(self) -> tuple[str, ...]:
        return ()

    @property
    def shared_memory(self) -> int:
        """Bytes of tiles of K and V, and of Q."""
        return (self.stages * 2 * self.keys + self.rows) * self.head_dim * 2


@dataclass(frozen=True)
class SplitVariant(CachedVariant):
    """The same where single workgroups share a head's keys, and another kernel adds up results."""

    kind = "split"

    @property
    def shape(self) -> tuple[str, ...]:
        return ()

    @property
    def sizes(self) -> dict[str, int]:
        return super().sizes | {"SPLIT": 1}

    @property
    def constants(self) -> tuple[str, ...]:
        strides = [name for name in STRIDE_CONSTANTS if not name.startswith("output")]
        return (*CONSTANTS, "heads", *WINDOW_CONSTANTS, "splits", *strides, "scale", "cap")


TritonVariant = Variant | DecodeVariant | CombineVariant
AnyVariant = TritonVariant | CudaVariant


def _mask_number(mask: str) -> int:
    """How the sources number the kinds of masks."""
    return {"none": 0, "i8": 2, "keys": 3}.get(mask, 1)


def _cuda_mask(mask: str) -> int:
    """How attend.h numbers them."""
    return {"none": 0, "f32": 2, "i8": 3}.get(mask, 1)


def variants() -> list[AnyVariant]:
    """All kernels, in the order of the manifest."""
    return [
        *prefill_variants(),
        *decode_variants(),
        *latent_variants(),
        *wide_variants(),
        *divided_variants(),
        *(ShortVariant(*kind) for kind in itertools.product(("f16", "bf16"), SHORT_HEADS)),
        *(
            BlocksVariant(element, head, *shape)
            for element, (head, shape) in itertools.product(("f16", "bf16"), BLOCKS.items())
        ),
        *cached_variants(),
        *split_variants(),
        *lone_variants(),
    ]


def prefill_variants() -> list[Variant]:
    found = []
    for element, head, v_t, causal in itertools.product(
        ("f16", "bf16"), (64, 128), (False, True), (False, True)
    ):
        options = (("KEYS", 128), ("STAGES", 2), ("REGISTERS", 232))
        plain = Variant(
            "hopper_attention", element, element, head, causal, v_t, options, q_stages=2
        )
        found.append(plain)
        if head == 64:
            options = (("KEYS", 64), ("STAGES", 4), ("REGISTERS", 112))
            found.append(replace(plain, parts=4, options=options))
            if not v_t and not causal:
                found += [replace(one, mask="keys") for one in found[-2:]]
    for element, head in itertools.product(("f16", "bf16"), (64, 128, 256)):
        keys = 64 if head == 256 else 128
        options = (("KEYS", keys), ("STAGES", 2), ("REGISTERS", 232))
        plain = Variant("hopper_attention", element, element, head, False, False, options)
        stages = 1 if head == 256 else 2
        lasting = replace(plain, q_stages=stages)
        if head == 256:
            found += [lasting, replace(lasting, causal=True)]
        found.append(replace(lasting, causal=True, window=True))
        for mask in (element, "f32", "i8"):
            found += mask_variants(plain, mask)
        # Limits that hide nothing make a window of any mask: a tanh costs more than they.
        capped = [replace(plain, causal=True, window=True)]
        capped += [mask_variants(plain, mask)[1] for mask in (element, "i8")]
        found += [replace(variant, soft_cap=True) for variant in capped]
    found += [_with_sink(variant) for variant in found if _has_sinks(variant)]
    for element in ("f16", "bf16"):
        found += slab_variants(element)
    for value, v_t, causal in itertools.product(("f16", "bf16"), (False, True), (False, True)):
        if v_t and causal:  # not worth its size: V^T is as fast as row-major V
            continue
        options = (("KEYS", 128), ("STAGES", 3), ("REGISTERS", 232))
        kinds = ("f8E4M3FN", value, 128, causal, v_t)
        found.append(
            Variant("hopper_attention", *kinds, options, q_stages=2, value_type=value, lazy=True)
        )
    return [*found, *narrow_variants()]


def _has_sinks(variant: Variant) -> bool:
    """Whether models with sinks have such attention: causal or in a window, or under a mask that is
    given (one with heads of 128: aligned). Limits that hide nothing make the first of none."""
    if variant.head_dim > 128 or variant.v_transposed or variant.soft_cap:
        return False
    masked = variant.mask in ("f32", "i8") and (variant.head_dim == 64 or variant.mask_stages > 0)
    return variant.causal or masked


def _with_sink(variant: Variant) -> Variant:
    """The same with a sink. Windows of gpt-oss are of 128 keys: in tiles of 64 they take 0.7 of the
    time, where those of 1024 take 1.1."""
    options = variant.options
    if variant.window and variant.head_dim == 64:
        options = (("KEYS", 64), ("STAGES", 4), ("REGISTERS", 232))
    return replace(variant, sink=True, options=options)


def narrow_variants() -> list[Variant]:
    """Kernels for 8 bits: head dims up to 64, 128 and 256. Where V is row-major four more warps
    turn it, for which heads of 256 leave no registers. Windows are for e4m3 and V^T, and so are
    sinks, with heads up to 128: limits that hide nothing make a window of none."""
    found = []
    for element, head, v_transposed in itertools.product(
        ("f8E4M3FN", "f8E5M2"), (64, 128, 256), (True, False)
    ):
        if head == 256 and not v_transposed:
            continue
        options = (("KEYS", 128), ("STAGES", 2 if head == 256 else 3))
        options += (("REGISTERS", 240 if v_transposed else 208),)
        kinds = ("hopper_fp8", element, "f16", head, False, v_transposed, options)
        plain = Variant(*kinds, padded=True)
        causal = replace(plain, causal=True)
        found += [plain, causal]
        if v_transposed and element == "f8E4M3FN":
            found.append(replace(causal, window=True))
            found += [replace(found[-1], sink=True)] if head <= 128 else []
    return found


def wide_variants() -> list[Variant]:
    """Kernels for f32: head dims up to 64, and up to 128."""
    found = []
    for head in (64, 128):
        options = (("KEYS", 64), ("STAGES", 1 if head == 128 else 2), ("REGISTERS", 216))
        kinds = ("hopper_f32", "f32", "f32", head, False, False)
        plain = Variant(*kinds, options, padded=True)
        causal = replace(plain, causal=True)
        window = replace(causal, window=True)
        found += [plain, causal, window, replace(window, sink=True)]
        found += [replace(plain, mask=mask) for mask in ("f32", "i8")]
    return found


def slab_variants(element: str) -> list[Variant]:
    """Kernels for head dims that are no powers of two: all up to 48, 80 and 96, and 192 of Q and K
    with 128 of V, for which there is no soft-cap. Masks and windows are for those of 96, what is
    causal for those of 80 or 96."""
    options = (("KEYS", 128), ("STAGES", 2), ("REGISTERS", 240))
    plain = Variant("hopper_attention", element, element, 192, False, False, options)
    wide = replace(plain, value_dim=128)
    smaller = replace(plain, head_dim=96, padded=True)
    lasting = [replace(smaller, q_stages=2), replace(wide, q_stages=1)]
    deeper = (("KEYS", 128), ("STAGES", 3), ("REGISTERS", 240))
    # Where estimates are equal the first is taken.
    smallest = replace(lasting[0], head_dim=80, options=deeper)
    plain_or_causal = itertools.product((smallest, *lasting), (False, True))
    found = [replace(smallest, head_dim=48)]
    options = (("KEYS", 64), ("STAGES", 4), ("REGISTERS", 112))
    found.append(replace(found[0], parts=4, options=options))
    found += [replace(kernel, causal=causal) for kernel, causal in plain_or_causal]
    found += [replace(kernel, causal=True, window=True) for kernel in lasting]
    for mask in (element, "f32", "i8"):
        found += [*mask_variants(smaller, mask), *mask_variants(wide, mask)]
    capped = [replace(smaller, causal=True, window=True)]
    capped += [mask_variants(smaller, mask)[1] for mask in (element, "i8")]
    return [*found, *(replace(kernel, soft_cap=True) for kernel in capped)]


def mask_variants(plain: Variant, mask: str) -> list[Variant]:
    """A kernel for aligned masks, in tiles that shared memory has room for, and one for all
    others. There, with a mask's elements and addresses in registers, too, is room for half as
    many keys."""
    head, wide = plain.head_dim, MASK_WIDTHS[mask] == 4
    keys = 64 if head > 128 or wide else 128
    options = (("KEYS", keys), ("STAGES", 2), ("REGISTERS", 240))
    stages = 1 if head == 256 and wide else 2
    aligned = replace(plain, mask=mask, mask_stages=stages, options=options)
    options = (("KEYS", 64), ("STAGES", 2), ("REGISTERS", 232))
    return [aligned, replace(plain, mask=mask, options=options)]


def decode_variants() -> list[DecodeVariant | CombineVariant]:
    """Decode kernels, with tiles of 16 KB of K (8 KB of 8 bits), and what combines them."""
    found: list[DecodeVariant | CombineVariant] = []
    for element, head in itertools.product(("f16", "bf16"), (64, 128, 256)):
        for mask in ("none", element, "f32", "i8"):
            found.append(DecodeVariant(element, element, head, mask, 8192 // head, 2))
        found += [CombineVariant(element, head, sink=sink) for sink in (False, True)]
    narrow = "f8E4M3FN"
    for element, head in itertools.product(("f16", "bf16", narrow), (64, 128)):
        own = "f16" if element == narrow else element
        for mask in ("none", own, "f32", "i8"):
            found.append(DecodeVariant(element, narrow, head, mask, 16384 // head, 2))
    return found


def latent_variants() -> list[DecodeVariant | CombineVariant]:
    """Kernels for decode over latents, and what combines them."""
    found: list[DecodeVariant | CombineVariant] = []
    for element in ("f16", "bf16"):
        for mask in ("none", element, "f32", "i8"):
            found.append(DecodeVariant(element, element, 576, mask, 64, 1, value_dim=512))
        few = CombineVariant(element, 512, height=0, few=4, slots=8, columns=512)
        # Where rows are few each has many slots, and a program for each quarter of it.
        found += [few, replace(few, slots=32, columns=128)]
    return found


def divided_variants() -> list[DividedVariant]:
    """Kernels for few rows over many keys, by clusters; tiles fill the shared memory."""
    found = []
    for element, (head, keys) in itertools.product(("f16", "bf16"), ((64, 128), (128, 64))):
        plain = DividedVariant(element, head, keys, parts=1, stages=6)
        found += [replace(plain, parts=parts) for parts in DIVIDED_PARTS]
        for mask, parts in itertools.product((element, "f32", "i8"), MASKED_PARTS):
            found.append(replace(plain, parts=parts, mask=mask))
    return found


def cached_variants() -> list[CachedVariant]:
    """Kernels for up to 16 rows over a cache, by clusters. Elements of masks take registers: there
    more warps have smaller tiles."""
    found = []
    for element, head in itertools.product(("f16", "bf16"), (64, 128)):
        for mask, parts in itertools.product(("none", element, "f32", "i8"), CACHED_PARTS):
            small = head == 128 and mask != "none"
            keys, warps, resident = (16, 8, 1) if small else (32, 4, 3 if head == 64 else 1)
            found.append(CachedVariant(element, head, keys, parts, warps, resident, mask))
            if mask == "none":
                found.append(replace(found[-1], sink=True))
    for element, parts in itertools.product(("f16", "bf16"), CACHED_PARTS):
        found.append(CachedVariant(element, 256, 16, parts, 4, 1))
    return found


def lone_variants() -> list[LoneVariant]:
    """Kernels for many heads of few keys: as many warps share a multiprocessor as registers let."""
    found = []
    for element, (head, residents) in itertools.product(("f16", "bf16"), LONE_RESIDENTS.items()):
        for mask in ("none", element, "f32", "i8"):
            resident = residents[mask != "none"]
            found.append(LoneVariant(element, head, 16, 1, 1, resident, mask))
    return found


def split_variants() -> list[SplitVariant]:
    """Kernels for few heads, whose keys all multiprocessors share."""
    alone = [one for one in cached_variants() if one.mask == "none" and not one.sink]
    return [SplitVariant(*dataclasses.astuple(one)) for one in alone if one.parts == 1]
