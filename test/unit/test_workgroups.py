"""How kernels are cut for the workers of a CPU."""

from __future__ import annotations

from math import ceil

import pytest

from attnpass.ir import Refusal
from attnpass.machines.cpu.configurations import fills_tiles
from attnpass.machines.cpu.product_tiles import TallTiles, row_tiles, tall_tiles
from attnpass.machines.cpu.products import configuration
from attnpass.machines.cpu.workgroups import busy


def test_claims_of_eight_leave_workers_idle() -> None:
    # 24 claims of eight for 16 workers, and 12 workgroups one by one.
    assert busy(192) < busy(96) < busy(768)
    assert busy(24) < busy(48)


@pytest.mark.parametrize(
    ("rows", "columns", "count"),
    [(512, 768, 96), (512, 3072, 96), (1024, 768, 96), (1024, 2304, 96), (1024, 3072, 768)],
)
def test_tall_tiles_keep_sixteen_workers_busy(rows: int, columns: int, count: int) -> None:
    tiles = tall_tiles(rows, columns, 64)
    assert not isinstance(tiles, Refusal)
    assert ceil(rows / tiles.tall) * columns // tiles.across == count
    assert columns % tiles.across == 0 == tiles.across % tiles.columns


@pytest.mark.parametrize(("columns", "count"), [(512, 32), (2048, 64), (8192, 64), (50257, 786)])
def test_few_rows_keep_workers_busy(columns: int, count: int) -> None:
    tiles = row_tiles(1, columns, True, 4, 64)
    assert not isinstance(tiles, Refusal)
    assert ceil(columns / tiles.columns) == count


@pytest.mark.parametrize(("rows", "columns"), [(17, 48), (100, 272), (577, 144), (1022, 4096)])
def test_tiles_are_of_about_one_size(rows: int, columns: int) -> None:
    tiles = tall_tiles(rows, columns, 64)
    assert not isinstance(tiles, Refusal)
    last = rows - tiles.tall * (ceil(rows / tiles.tall) - 1)
    assert tiles.tall >= last >= tiles.tall / 2


def test_packed_weights_of_a_workgroup_fit_the_second_level_cache() -> None:
    assert "distribution = [128, 4, 32, 0]" in configuration((8, 32), 512, 3072, 768)
    assert "distribution = [64, 1, 32, 0]" in configuration((8, 32), 512, 3072, 14336)


def test_rows_that_go_together_leave_no_rest() -> None:
    with pytest.raises(ValueError, match="each has to divide the one before"):
        TallTiles(16, 64, 128, 64, (6, 4, 2, 1), 128)


@pytest.mark.parametrize(
    ("size", "fills"), [(2, True), (3, False), (4, True), (6, False), (20, False), (24, True)]
)
def test_key_dims_that_fill_tiles(size: int, fills: bool) -> None:
    """Of 6 keys IREE takes 8 lanes, halved: 4 of 6 leave a rest."""

    class Registers:
        vector_bytes = 32

    assert fills_tiles(size, Registers()) == fills  # pyright: ignore[reportArgumentType]
