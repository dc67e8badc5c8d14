"""The rule that takes kernels where they win, held against what was measured."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from attnpass.kernels.hopper.manifest import Kernel, load_kernels
from attnpass.kernels.hopper.speed import Work, iree_seconds, kernel_seconds
from attnpass.machines import named_target
from bench.results import load

RESULTS = load("kernels_h200")
ROWS: dict[str, dict[str, Any]] = {
    case: RESULTS.cases[case] | ways["iree"]
    for case, ways in RESULTS.by_case().items()
    if "ms" in ways["iree"]
}
PAIRS = [
    (row, ROWS[f"{case}_own_configured"])
    for case, row in ROWS.items()
    if f"{case}_own_configured" in ROWS
]


def _kernel(name: str) -> Kernel:
    return next(kernel for kernel in load_kernels() if kernel.name == name)


def _estimated(name: str, work: Work) -> float:
    """Microseconds of the kernel of this name."""
    return 1e6 * kernel_seconds(work, _kernel(name), named_target("sm_90"))


def _work(row: dict[str, Any]) -> Work:
    kept = row["cache"] or row["dtype"]
    width = 1 if kept.startswith("f8") else 4 if kept == "f32" else 2
    head_dims = row["head"] + (row.get("value_head") or row["head"])
    return Work(row["heads"], row["group"], row["rows"], row["keys"], head_dims, width)


def test_there_are_pairs() -> None:
    assert len(PAIRS) > 20


@pytest.mark.parametrize(("row", "own"), PAIRS, ids=lambda row: row["case"])
def test_the_rule_takes_the_faster(row: dict[str, Any], own: dict[str, Any]) -> None:
    """Where the rule errs, what it takes is at most a quarter slower, or 3 us."""
    work, target = _work(row), named_target("sm_90")
    taken = kernel_seconds(work, _kernel(row["kernel"]), target) < iree_seconds(work)
    kernel, iree = row["ms"], own["ms"]
    chosen, other = (kernel, iree) if taken else (iree, kernel)
    assert chosen < 1.25 * other or chosen < other + 0.003


def test_the_manifest_has_the_measured_speed() -> None:
    row = ROWS["f16_32x1_1x65536_d128"]
    kernel = _kernel(row["kernel"])
    speed = kernel.measured_work / kernel.measured_seconds
    assert speed > row["GBps"] * 0.999e9
    assert "GB/s at f16_" in kernel.measured


# Sequences, heads, new tokens, keys; microseconds on an H200, 2026-11-24, 48 from the day before
# (docs/notes/kernels.md).
LATENTS = [
    ((16, 128, 1, 8192), 77),
    ((16, 128, 2, 8192), 133),
    ((128, 128, 1, 4096), 277),
    ((64, 16, 1, 8192), 154),
    ((16, 64, 1, 8192), 56),
    ((8, 16, 1, 16384), 48),
    ((1, 16, 1, 65536), 37.5),
]


@pytest.mark.parametrize(("sizes", "measured"), LATENTS)
def test_decode_over_latents_takes_as_long_as_estimated(
    sizes: tuple[int, int, int, int], measured: float
) -> None:
    sequences, heads, rows, keys = sizes
    work = Work(sequences, heads, rows, keys, 576 + 512, 2)
    estimated = _estimated("latent_bf16_d576x512", work)
    assert abs(estimated - measured) < 0.25 * measured
    assert estimated < iree_seconds(work) * 1e6


# Heads of K and V, rows that share them, keys, head dim, workgroups that divide the keys;
# microseconds on an H200, 2026-11-24 (docs/notes/kernels.md).
DIVIDED = [
    ((32, 64, 8192, 128, 2), 41.3),
    ((8, 64, 8192, 128, 8), 18.6),
    ((8, 64, 32768, 128, 8), 42.4),
    ((8, 16, 4096, 128, 8), 12.2),
    ((8, 128, 8192, 128, 6), 22.5),
    ((8, 512, 8192, 128, 2), 42.8),
    ((16, 512, 4096, 128, 1), 42.4),
    ((128, 4, 16384, 128, 1), 244.4),
    ((16, 64, 8192, 64, 4), 18.1),
    ((16, 64, 8192, 128, 4), 26.0),
    ((32, 8, 2048, 128, 3), 15.1),
    ((32, 256, 2048, 128, 1), 27.5),
    ((8, 512, 4096, 64, 2), 17.5),
    # Many waves, in whole blocks: Whisper, SDXL, SD3.
    ((80, 1, 1500, 64, 4), 20.2),
    ((40, 1024, 1024, 64, 1), 50.2),
    ((24, 4250, 4250, 64, 2), 396.5),
]


@pytest.mark.parametrize(("sizes", "measured"), DIVIDED)
def test_divided_keys_take_as_long_as_estimated(
    sizes: tuple[int, int, int, int, int], measured: float
) -> None:
    heads, rows, keys, head, parts = sizes
    work = Work(heads, 1, rows, keys, 2 * head, 2)
    estimated = _estimated(f"divided_f16_d{head}_by{parts}", work)
    assert abs(estimated - measured) < 0.2 * measured


# Heads of K and V, rows and keys, head dim; microseconds on an H200, 2026-11-28, by launches in a
# CUDA graph; in modules they take 1.3 more.
SHORT = [
    ((1, 128, 128, 128), 4.5),
    ((32, 128, 128, 128), 4.6),
    ((32, 256, 256, 128), 6.4),
    ((64, 64, 256, 128), 6.4),
    ((8, 512, 512, 128), 9.5),
    ((32, 512, 512, 128), 18.0),
    ((64, 512, 512, 128), 34.6),
    ((64, 64, 64, 64), 3.0),
    ((48, 128, 128, 64), 3.5),
    ((96, 128, 128, 64), 6.0),
    ((64, 197, 197, 64), 8.3),
    ((12, 512, 512, 64), 6.5),
    ((192, 384, 384, 64), 41.4),
    ((384, 128, 128, 64), 16.4),
    ((16, 77, 77, 96), 4.2),
    ((64, 197, 197, 96), 11.5),
]


@pytest.mark.parametrize(("sizes", "measured"), SHORT)
def test_few_keys_take_as_long_as_estimated(
    sizes: tuple[int, int, int, int], measured: float
) -> None:
    heads, rows, keys, head = sizes
    work = Work(heads, 1, rows, keys, 2 * head, 2)
    estimated = _estimated(f"short_f16_d{head}", work)
    assert abs(estimated - measured - 1.3) < 0.12 * measured


# Heads of K and V, rows, keys and head dim, and the kernel's; launches as above.
LARGER = [
    ((32, 512, 512, 128, 128), 12.4),
    ((32, 256, 256, 128, 128), 8.4),
    ((32, 1024, 1024, 128, 128), 39.6),
    ((64, 384, 384, 128, 128), 18.2),
    ((32, 512, 512, 96, 96), 11.5),
    ((256, 257, 257, 80, 80), 35.5),
    ((256, 729, 729, 72, 80), 195.2),
    ((64, 197, 197, 64, 64), 6.7),
    ((32, 512, 512, 64, 64), 8.7),
    ((12, 512, 512, 64, 64), 7.4),
    ((96, 128, 128, 64, 64), 4.8),
    ((192, 384, 384, 64, 64), 32.0),
]


@pytest.mark.parametrize(("sizes", "measured"), LARGER)
def test_blocks_of_rows_take_as_long_as_estimated(
    sizes: tuple[int, int, int, int, int], measured: float
) -> None:
    heads, rows, keys, head, own = sizes
    work = Work(heads, 1, rows, keys, 2 * head, 2)
    estimated = _estimated(f"blocks_f16_d{own}", work)
    assert abs(estimated - measured - 1.3) < 0.12 * measured


# Heads of K and V, rows that share them, keys, head dim, and the bytes of a mask of keys;
# microseconds by how many workgroups divide the keys, and of the decode kernel, on an H200,
# 2026-11-28, launches by themselves.
CACHES = [
    ((8, 4, 16384, 128, 0), {8: 22.3, 6: 25.8}, 25.3),
    ((8, 4, 4096, 128, 0), {8: 8.7, 6: 9.6, 4: 11.4}, 9.6),
    ((8, 4, 256, 128, 0), {8: 5.4, 4: 5.0, 2: 5.1}, 6.2),
    ((32, 1, 512, 128, 0), {3: 6.2, 2: 6.8, 1: 7.9}, 7.0),
    ((1, 1, 16384, 128, 0), {8: 18.6, 6: 23.2}, 8.2),
    ((64, 1, 16384, 128, 0), {2: 124.3, 1: 130.3}, 129.1),
    ((64, 8, 8192, 128, 0), {2: 65.8, 1: 69.0}, 72.8),
    ((256, 1, 4096, 128, 0), {1: 128.1}, 130.6),
    ((64, 1, 16384, 64, 0), {2: 65.8, 1: 83.7}, 70.0),
    # In modules.
    ((32, 1, 65536, 128, 0), {3: 289.1}, 242.4),
    ((64, 1, 16384, 128, 2.1e6), {2: 144.9}, 141.1),
]


@pytest.mark.parametrize(("sizes", "divided", "decode"), CACHES)
def test_the_faster_kernel_reads_a_cache(
    sizes: tuple[int, int, int, int, float], divided: dict[int, float], decode: float
) -> None:
    heads, rows, keys, head, mask_bytes = sizes
    work = Work(heads, rows, 1, keys, 2 * head, 2, mask_bytes=mask_bytes, mask_by_row=False)
    ending = f"f16_d{head}" + ("{}_mask_f16" if mask_bytes else "{}")
    measured = {f"divided_{ending.format(f'_by{parts}')}": us for parts, us in divided.items()}
    measured[f"decode_{ending.format('')}"] = decode
    times = {
        kernel.name: kernel_seconds(work, kernel, named_target("sm_90"))
        for kernel in load_kernels()
        if kernel.name in measured
    }
    assert measured[min(times, key=times.__getitem__)] < 1.1 * min(measured.values())


# Heads of K and V, rows that share them, keys, head dim; microseconds by how many workgroups divide
# the keys, on an H200, 2026-11-28, launches in a CUDA graph (in modules up to 1.3 more).
CACHED = [
    ((32, 1, 128, 128), {1: 2.96, 2: 3.07, 4: 5.22, 8: 7.7}),
    ((32, 1, 512, 128), {1: 5.35, 2: 4.25, 4: 5.73, 8: 7.89}),
    ((8, 1, 2048, 128), {1: 14.8, 2: 8.72, 4: 5.55, 8: 4.12}),
    ((32, 1, 2048, 128), {1: 15.1, 2: 9.22, 4: 10.7, 8: 11.3}),
    ((32, 1, 4096, 128), {1: 28.5, 2: 18.2, 4: 22.5, 8: 22}),
    ((8, 4, 16384, 128), {1: 105, 2: 53.4, 4: 28.2, 8: 18.3}),
    ((8, 1, 65536, 128), {1: 411, 2: 204, 4: 103, 8: 61.6}),
    ((256, 1, 4096, 128), {1: 119, 2: 121}),
    ((64, 1, 16384, 128), {1: 120, 2: 118, 4: 132, 8: 123}),
    ((32, 1, 65536, 128), {1: 412, 2: 238, 4: 287, 8: 262}),
    ((64, 8, 8192, 128), {1: 62.2, 2: 61.4, 4: 69.8, 8: 66.4}),
    ((16, 1, 2048, 64), {1: 10.6, 2: 6.55, 4: 4.4, 8: 3.94}),
    ((64, 1, 16384, 64), {1: 73.1, 2: 61.2, 4: 67.4, 8: 73.4}),
    ((12, 1, 512, 64), {1: 4.04, 2: 3.22, 4: 2.77, 8: 2.81}),
    ((32, 8, 4096, 64), {1: 19.6, 2: 11.2, 4: 8.91, 8: 8.18}),
    ((64, 1, 8192, 256), {2: 121.2, 8: 131.8}),
    ((8, 2, 8192, 256), {2: 66.3, 8: 22.6}),
    ((4, 2, 4096, 256), {8: 12.2}),
]


@pytest.mark.parametrize(("sizes", "measured"), CACHED)
def test_few_rows_over_a_cache_take_as_long_as_estimated(
    sizes: tuple[int, int, int, int], measured: dict[int, float]
) -> None:
    heads, rows, keys, head = sizes
    work = Work(heads, rows, 1, keys, 2 * head, 2)
    for parts, us in measured.items():
        estimated = _estimated(f"cached_f16_d{head}_by{parts}", work)
        assert abs(estimated - us - 1) < 0.15 * us, parts


# Microseconds of many heads of few keys, by one warp for 16 rows: heads, rows, keys, head dim,
# kernel. One run on an H200, by launches.
LONE = [
    ((16384, 16, 16, 40, "f16_d64"), 29.2),
    ((32768, 14, 14, 64, "f16_d64"), 58.7),
    ((32768, 25, 25, 64, "f16_d64"), 128.3),
    ((2048, 64, 64, 32, "f16_d32"), 16.3),
    ((2048, 64, 64, 32, "f16_d32_mask_f16"), 25.2),
    ((1536, 49, 49, 32, "f16_d32"), 13.0),
    ((1536, 49, 49, 32, "f16_d32_mask_f16"), 18.0),
    ((192, 77, 77, 64, "f16_d64"), 5.5),
    ((192, 77, 77, 64, "f16_d64_mask_f16"), 6.6),
    ((12, 77, 77, 64, "f16_d64"), 4.1),
    ((128, 128, 128, 64, "f16_d64"), 7.1),
    ((128, 128, 512, 64, "f16_d64_mask_f16"), 26.1),
    ((4096, 32, 32, 128, "f16_d128"), 36.8),
    ((512, 100, 100, 128, "f16_d128"), 29.9),
    ((512, 100, 100, 128, "f16_d128_mask_f16"), 38.1),
    ((64, 16, 16, 64, "f16_d64"), 2.4),
    ((2400, 25, 77, 40, "f16_d64"), 21.6),
]


@pytest.mark.parametrize(("case", "us"), LONE)
def test_many_heads_of_few_keys_take_as_long_as_estimated(
    case: tuple[int, int, int, int, str], us: float
) -> None:
    heads, rows, keys, head, name = case
    estimated = _estimated(f"lone_{name}", Work(heads, 1, rows, keys, 2 * head, 2))
    assert abs(estimated - us) < 0.25 * us + 0.5


def test_blocks_of_few_keys_take_their_time() -> None:
    """One H200: IREE's code for windows of 64 rows, and a prefill kernel for frames of a video."""
    axial = 1e6 * iree_seconds(Work(2048, 1, 64, 64, 64, 2))
    assert abs(axial - 22.9) < 0.25 * 22.9
    frames = _estimated("attention_f16_d48_wide", Work(16384, 1, 16, 16, 80, 2))
    assert abs(frames - 282) < 0.25 * 282


# The same where all multiprocessors split the keys of each head: two launches.
SPLIT = [
    ((1, 1, 4096, 128), 5.04),
    ((1, 1, 8192, 128), 5.15),
    ((1, 1, 16384, 128), 5.53),
    ((1, 1, 32768, 128), 6.42),
    ((2, 1, 16384, 128), 6.45),
    ((4, 1, 16384, 128), 8.40),
    ((4, 4, 8192, 128), 6.52),
    ((2, 4, 32768, 128), 8.58),
    ((1, 8, 16384, 128), 5.88),
    ((1, 1, 131072, 128), 20.6),
    ((8, 1, 16384, 128), 20.5),
]


@pytest.mark.parametrize(("sizes", "us"), SPLIT)
def test_split_keys_take_as_long_as_estimated(sizes: tuple[int, int, int, int], us: float) -> None:
    heads, rows, keys, head = sizes
    work = Work(heads, rows, 1, keys, 2 * head, 2)
    assert abs(_estimated(f"split_f16_d{head}", work) - us - 2) < 0.1 * us


# Masks that are tensors: heads, rows and keys, head dim, the kernel's mask, whether rows have masks
# of their own, and their bytes; microseconds of the kernel and of IREE's code (0: not timed) on an
# H200, launches in modules of four layers and of blocks, and launches alone.
MASKED = [
    ((128, 512, 64, "bf16_d64_mask_bf16_aligned", False, 8192), (84.5, 43.5)),
    ((128, 512, 64, "f16_d64_mask_i8_aligned", False, 4096), (73.6, 39.4)),
    ((128, 512, 64, "bf16_d64_mask_bf16_aligned", True, 4.2e6), (54.5, 0)),
    ((128, 512, 64, "bf16_d64_mask_f32_aligned", True, 134e6), (67.5, 66.4)),
    ((96, 512, 64, "f16_d64_mask_f16_aligned", True, 4.2e6), (38.0, 0)),
    ((24, 4352, 128, "f16_d128_mask_i8_aligned", False, 4352), (569, 0)),
    ((32, 4096, 64, "f16_d64_mask_f16_aligned", True, 33e6), (458, 0)),
    ((32, 4096, 128, "f16_d128_mask_f16_aligned", True, 33e6), (608, 0)),
    ((32, 4096, 128, "f16_d128_mask_i8_aligned", True, 17e6), (696, 0)),
    ((32, 4096, 128, "bf16_d128_mask_f32_aligned", True, 67e6), (933, 0)),
    ((32, 4096, 256, "f16_d256_mask_f16_aligned", True, 33e6), (959, 0)),
    ((128, 512, 64, "f16_d64_mask_keys", False, 4096), (43.2, 0)),
    ((128, 512, 64, "f16_d64_wide_mask_keys", False, 8192), (40.5, 40.7)),
    ((192, 384, 64, "bf16_d64_mask_keys", False, 6144), (43.5, 0)),
    ((32, 2048, 64, "f16_d64_mask_keys", False, 4096), (120, 0)),
    ((32, 2048, 64, "f16_d64_wide_mask_keys", False, 8192), (112, 0)),
]


@pytest.mark.parametrize(("case", "measured"), MASKED)
def test_masks_take_as_long_as_estimated(
    case: tuple[int, int, int, str, bool, float], measured: tuple[float, float]
) -> None:
    heads, keys, head, name, by_row, mask_bytes = case
    work = Work(heads, 1, keys, keys, 2 * head, 2, mask_bytes=mask_bytes, mask_by_row=by_row)
    estimates = _estimated(f"attention_{name}", work), 1e6 * iree_seconds(work)
    for estimated, found in zip(estimates, measured, strict=True):
        assert not found or abs(estimated - found) < 0.27 * found
    if all(measured) and max(measured) > 1.1 * min(measured):
        assert (estimates[0] < estimates[1]) == (measured[0] < measured[1])


NARROW = [row for row in ROWS.values() if row.get("kernel", "").startswith("attention_f8")]


@pytest.mark.parametrize("row", NARROW, ids=lambda row: row["case"])
def test_8_bits_take_as_long_as_estimated(row: dict[str, Any]) -> None:
    """Where V is transposed in front, its time comes on top."""
    kernel = _kernel(row["kernel"])
    seen = 0.5 if row["causal"] else 1.0
    if row["behind"]:
        # A block's rows see as many more keys as they are.
        seen = (row["behind"] + 1 + kernel.rows_per_workgroup) / row["keys"]
    work = dataclasses.replace(_work(row), seen=seen)
    estimated = kernel_seconds(work, kernel, named_target("sm_90")) * 1e3
    assert abs(estimated - row["ms"]) < 0.25 * row["ms"] + 0.01


def test_keys_that_fill_no_tile_have_no_configuration() -> None:
    """Whisper's attention of a row over 1500 keys: 7.6 us of whole chunks, and 44.5 of 220 keys
    that are left (launches of a module, one run on an H200)."""
    left = iree_seconds(Work(80, 1, 1, 1500, 128, 2))
    assert 45e-6 < left < 65e-6
    assert iree_seconds(Work(80, 1, 1, 1536, 128, 2)) < 15e-6
