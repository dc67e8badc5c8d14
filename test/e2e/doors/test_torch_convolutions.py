"""Convolutions of PyTorch on a CPU are products of patches, or loops, with right numbers."""

# pyright: reportMissingImports=false

from __future__ import annotations

import copy

import pytest
from helpers import in_each_way, in_turns, rel_error

import attnpass
from attnpass import Report

torch = pytest.importorskip("torch")
nn = torch.nn


def separable(channels: int, wide: int) -> nn.Sequential:
    """Pixels' channels spread, windows of each, channels brought together."""
    pixels, windows = nn.Conv2d(channels, wide, 1), nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
    return nn.Sequential(pixels, nn.ReLU(), windows, nn.Hardswish(), nn.Conv2d(wide, channels, 1))


# By what the image is: dims behind the channels, channels, and what reads it.
CONVOLUTIONS = (
    ((17, 15), 12, lambda: nn.Conv2d(12, 24, 3, padding=1)),
    ((17, 15), 12, lambda: nn.Conv2d(12, 16, (5, 3), stride=2, padding=(2, 1), bias=False)),
    ((18, 16), 12, lambda: nn.Conv2d(12, 16, 3, dilation=2)),
    ((32, 36), 3, lambda: nn.Conv2d(3, 24, 4, stride=4)),
    ((16, 16), 24, lambda: nn.Conv2d(24, 40, 1)),
    ((9, 11), 24, lambda: nn.Conv2d(24, 24, 3, padding=1, groups=24)),
    ((12, 11), 24, lambda: nn.Conv2d(24, 32, 3, padding=1, groups=4)),
    ((190,), 12, lambda: nn.Conv1d(12, 24, 5, stride=2)),
    ((6, 9, 7), 8, lambda: nn.Conv3d(8, 16, 3, stride=(1, 2, 1), padding=1)),
    ((12, 28), 16, lambda: separable(16, 64)),
)
# Images that are spread over zeros: of even and uneven kernels, with results that no tap reaches,
# pixels that no result reads, of one step, of kernels that are their steps, of groups and solids,
# with few channels, and with many taps.
SPREAD = (
    ((9, 8), 12, lambda: nn.ConvTranspose2d(12, 16, 4, 2, 1)),
    ((9, 8), 12, lambda: nn.ConvTranspose2d(12, 8, (3, 2), (2, 3), (1, 0), (1, 2), bias=False)),
    ((21,), 12, lambda: nn.ConvTranspose1d(12, 16, 5, 3, 4)),
    ((7, 8), 12, lambda: nn.ConvTranspose2d(12, 16, 3, 1, 1)),
    ((9, 16), 16, lambda: nn.ConvTranspose2d(16, 16, 2, 2)),
    ((9, 7), 12, lambda: nn.ConvTranspose2d(12, 16, (4, 3), 2, (1, 0), (1, 0), groups=4)),
    ((5, 4, 6), 4, lambda: nn.ConvTranspose3d(4, 8, 3, 2, 1, 1)),
    ((33,), 24, lambda: nn.ConvTranspose1d(24, 3, 16, 8, 4)),
)
# Those that stay: few channels, gaps between taps, and poolings. Of a dim in which a window stands
# at one place not all is read.
LEFT = (
    ((17, 15), 12, lambda: nn.Conv2d(12, 3, 3)),
    ((9, 8), 12, lambda: nn.ConvTranspose2d(12, 16, 3, 2, 1, dilation=2)),
    ((9, 2), 4, lambda: nn.Conv2d(4, 6, 3, stride=(3, 2), padding=(0, 1))),
    ((3, 6), 3, lambda: nn.MaxPool2d(2)),
)


class Convolutions(nn.Module):
    def __init__(self, makers) -> None:
        super().__init__()
        self.each = nn.ModuleList([make() for make in makers])

    def forward(self, *images):
        # What stands behind, element by element, goes into kernels.
        return tuple(torch.relu(conv(image)) for conv, image in zip(self.each, images, strict=True))


WAYS = [("O0", "float32", 0), ("O3", "bfloat16", 1), ("O2", "float32", 2)]


@pytest.mark.parametrize(("level", "kind", "unknown"), WAYS)
def test_numbers(level: str, kind: str, unknown: int) -> None:
    """`unknown` dims, of the batch and of the first of the image's, are open. Each convolution goes
    in one way."""
    torch.manual_seed(0)
    place = unknown, len(WAYS)
    products, spread, left = (in_turns(some, *place) for some in (CONVOLUTIONS, SPREAD, LEFT))
    tested = [*products, *spread, *left]
    model = Convolutions(make for *_, make in tested).eval()
    dtype, report = getattr(torch, kind), Report()
    given = [torch.randn(2, c, *sizes) for sizes, c, _ in tested]
    shapes = None
    if unknown:
        batch = torch.export.Dim("batch", min=1, max=64)
        shapes = (({0: batch} | ({2: torch.export.Dim.AUTO} if unknown > 1 else {}),) * len(given),)
    images, narrow = [x.to(dtype) for x in given], copy.deepcopy(model).to(dtype)
    compiled = attnpass.torch.compile(
        narrow,
        tuple(images),
        device="cpu",
        dynamic_shapes=shapes,
        report=report,
        extra_args=[f"--iree-opt-level={level}"],
    )
    if unknown:
        images = [torch.cat([x, x.flip(0)[:1]]) for x in images]
    with torch.no_grad():
        results = compiled(*images)
        wanted = narrow.double()(*(x.double() for x in images))
    assert not report.found("fallback")
    said = [one.pass_name for one in report.found("fitted")]
    assert said.count("attn-spread-images") == len(spread)
    assert said.count("attn-conv-products") >= len(products)
    kept = [one.reason for one in report.found("left") if one.pass_name == "attn-spread-images"]
    with_gaps = LEFT[1] in left
    assert kept == ["there are gaps between its taps, or it has steps of its own"] * with_gaps
    bound = {"float32": 2e-6, "bfloat16": 8e-3}[kind]
    for place, (result, right) in enumerate(zip(results, wanted, strict=True)):
        assert rel_error(result.double().numpy(), right.numpy()) < bound, place


# Positions of a wav2vec, gaps, and images: IREE 3.13 has no program of groups where the last dim is
# unknown.
GROUPS = (
    ((40,), 64, lambda: nn.Conv1d(64, 64, 16, padding=8, groups=16)),
    ((33,), 16, lambda: nn.Conv1d(16, 32, 5, 2, padding=2, dilation=2, groups=4)),
    ((9, 10), 16, lambda: nn.Conv2d(16, 24, 3, padding=1, groups=2, bias=False)),
)


@pytest.mark.parametrize(
    ("case", "kind"), in_each_way(((n,) for n in range(len(GROUPS))), ["float32", "bfloat16"])
)
def test_groups_of_unknown_pixels(case: int, kind: str) -> None:
    torch.manual_seed(case)
    sizes, channels, make = GROUPS[case]
    model, report = make().eval().to(getattr(torch, kind)), Report()
    x = torch.randn(2, channels, *sizes).to(model.weight.dtype)
    unknown = {0: torch.export.Dim.AUTO} | dict.fromkeys(range(2, x.dim()), torch.export.Dim.AUTO)
    compiled = attnpass.torch.compile(model, (x,), dynamic_shapes=(unknown,), report=report)
    assert not report.found("fallback")
    for image in (x, torch.randn(3, channels, *(size + 7 for size in sizes)).to(x.dtype)):
        with torch.no_grad():
            wanted = copy.deepcopy(model).double()(image.double())
        bound = {"float32": 2e-6, "bfloat16": 8e-3}[kind]
        assert rel_error(compiled(image).double().numpy(), wanted.numpy()) < bound


class Normed(nn.Module):
    """Pixels of a convolution are the rows of a norm and of what adds to it, as a U-Net's attention
    has them; long rows by index, normed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.o = nn.Conv2d(48, 320, 1), nn.LayerNorm(320), nn.Linear(320, 320)

    def forward(self, image, table, places):
        rows = self.conv(image).permute(0, 2, 3, 1).flatten(1, 2)
        taken = table[:, places]
        powers = torch.exp(taken - taken.amax(-1, keepdim=True))
        return rows + self.o(self.norm(rows)), powers, torch.softmax(table[:, places + 1], -1)


@pytest.mark.parametrize(("level", "kind"), [("O2", "float32"), ("O3", "bfloat16")])
def test_rows_of_norms(level: str, kind: str) -> None:
    torch.manual_seed(0)
    dtype, report = getattr(torch, kind), Report()
    model = Normed().eval().to(dtype)
    places = torch.randint(2999, (3000,))
    given = (torch.randn(1, 48, 8, 8).to(dtype), torch.randn(2, 3000).to(dtype), places)
    flags = [f"--iree-opt-level={level}"]
    compiled = attnpass.torch.compile(model, given, device="cpu", report=report, extra_args=flags)
    assert not report.found("fallback")
    with torch.no_grad():
        results, wide = compiled(*given), copy.deepcopy(model).double()
        wanted = wide(*(x.double() for x in given[:2]), places)
    bound = {"float32": 2e-6, "bfloat16": 8e-3}[kind]
    for result, right in zip(results, wanted, strict=True):
        assert rel_error(result.double().numpy(), right.numpy()) < bound


class Bottlenecks(nn.Module):
    """ResNet's blocks: products between which residuals pass, and others that read them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bias = nn.Conv2d(32, 48, 1), nn.Parameter(torch.randn(48, 1, 1))
        self.down = nn.ModuleList(nn.Conv2d(48, 32, 1) for _ in range(2))
        self.inner = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))
        self.up = nn.ModuleList(nn.Conv2d(32, 48, 1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(48) for _ in range(2))
        self.step = nn.Conv2d(48, 32, 1, stride=2)

    def forward(self, image):
        first = image = torch.relu(self.stem(image) + self.bias)
        for down, inner, up, norm in zip(self.down, self.inner, self.up, self.norms, strict=True):
            made = torch.relu(inner(torch.relu(down(image))))
            image = torch.relu(norm(up(made)) + image)
        return self.step(image), image.mean((2, 3)), torch.max_pool2d(first, 2)


@pytest.mark.parametrize(
    ("level", "kind", "sizes", "is_open"),
    [
        ("O0", "float32", (16, 16), False),
        ("O2", "float32", (9, 11), True),
        ("O3", "bfloat16", (16, 14), False),
    ],
)
def test_channels_stay_last(level: str, kind: str, sizes: tuple[int, int], is_open: bool) -> None:
    torch.manual_seed(0)
    dtype, report = getattr(torch, kind), Report()
    model = Bottlenecks().eval().to(dtype)
    image = torch.randn(2, 32, *sizes).to(dtype)
    compiled = attnpass.torch.compile(
        model,
        (image,),
        dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},) if is_open else None,
        report=report,
        extra_args=[f"--iree-opt-level={level}"],
    )
    assert not report.found("fallback")
    said = [one for one in report.found("fitted") if one.pass_name == "attn-channels-last"]
    assert len(said) >= 8
    with torch.no_grad():
        results, wanted = compiled(image), copy.deepcopy(model).double()(image.double())
    bound = {"float32": 2e-6, "bfloat16": 1e-2}[kind]
    for result, right in zip(results, wanted, strict=True):
        assert rel_error(result.double().numpy(), right.numpy()) < bound


class Resized(nn.Module):
    """SegFormer's head: what products make of images of several sizes is resized, and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.ModuleList(nn.Linear(count, 24) for count in (8, 12, 16))
        self.joined, self.norm = nn.Conv2d(72, 24, 1, bias=False), nn.BatchNorm2d(24)

    def forward(self, *images):
        wanted, found = images[0].shape[2:], []
        for image, rows in zip(images, self.rows, strict=True):
            made = rows(image.flatten(2).transpose(1, 2)).transpose(1, 2)
            made = made.reshape(image.shape[0], 24, *image.shape[2:])
            found.append(nn.functional.interpolate(made, size=wanted, mode="bilinear"))
        return torch.relu(self.norm(self.joined(torch.cat(found, 1))))


@pytest.mark.parametrize(
    ("level", "kind", "is_open"),
    [
        ("O0", "bfloat16", False),
        ("O2", "float32", True),
        ("O3", "float16", False),
    ],
)
def test_resized_channels_stay_last(level: str, kind: str, is_open: bool) -> None:
    torch.manual_seed(0)
    dtype, report = getattr(torch, kind), Report()
    model = Resized().eval().to(dtype)
    sizes = ((8, 12, 10), (12, 6, 5), (16, 3, 4))
    images = tuple(torch.randn(2, *size).to(dtype) for size in sizes)
    lines = torch.export.Dim("lines", min=2, max=64)
    compiled = attnpass.torch.compile(
        model,
        images,
        dynamic_shapes=(({2: lines}, None, None),) if is_open else None,
        report=report,
        extra_args=[f"--iree-opt-level={level}"],
    )
    assert not report.found("fallback")
    said = [one for one in report.found("fitted") if one.pass_name == "attn-channels-last"]
    assert len(said) > 20
    with torch.no_grad():
        made, wanted = (
            compiled(*images),
            copy.deepcopy(model).double()(*(x.double() for x in images)),
        )
    bound = {"float32": 2e-6, "bfloat16": 2e-2, "float16": 2e-3}[kind]
    assert rel_error(made.double().numpy(), wanted.numpy()) < bound
