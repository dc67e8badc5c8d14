"""`attnpass.torch.compile` gives what PyTorch gives, in f64, and leaves arguments alone."""

from __future__ import annotations

import copy
import importlib.metadata
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

import attnpass

torch = pytest.importorskip("torch", reason="the door for torch is not tested: no torch")
F = torch.nn.functional
ROOT = Path(__file__).parents[3]
WIDTH, HEADS = 32, 4


def _error(got: Any, wanted: Any) -> float:
    got, wanted = got.double(), wanted.double()
    return ((got - wanted).norm() / wanted.norm()).item()


def _reference(model: Any, *args: Any, **kwargs: Any) -> Any:
    """What the model gives in f64."""
    tree_map = torch.utils._pytree.tree_map

    def wide(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if is_float else copy.copy(value)

    with torch.no_grad():
        return copy.deepcopy(model).double()(*tree_map(wide, args), **tree_map(wide, kwargs))


def _heads(x: Any, heads: int) -> Any:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class SelfAttention(torch.nn.Module):
    """Grouped queries; causal without a mask."""

    def __init__(self, key_heads: int = 2):
        super().__init__()
        size = WIDTH // HEADS
        self.key_heads = key_heads
        self.query = torch.nn.Linear(WIDTH, WIDTH)
        self.key_value = torch.nn.Linear(WIDTH, 2 * key_heads * size, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, mask: Any = None) -> Any:
        k, v = (_heads(y, self.key_heads) for y in self.key_value(x).chunk(2, -1))
        q = _heads(self.query(x), HEADS)
        o = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True
        )
        return self.out(o.transpose(1, 2).flatten(-2))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.self_attn = SelfAttention()

    def forward(self, x: Any, mask: Any = None) -> Any:
        return x + self.self_attn(self.norm(x), mask)


class Language(torch.nn.Module):
    """Embeddings tied to the head, two layers, results in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(40, WIDTH)
        self.register_buffer("places", torch.randn(16, WIDTH), persistent=False)
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(WIDTH, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids: Any, *, attention_mask: Any = None, cache: Any = None) -> Any:
        x = self.embed(input_ids) + self.places[: input_ids.shape[1]]
        mask = None if attention_mask is None else attention_mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, mask)
        return {"logits": self.head(x), "cache": cache, "hidden": (x, input_ids + 1)}


class Step(torch.nn.Module):
    """A step of decode, with its caches as arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Any, keys: Any, values: Any, place: Any) -> Any:
        q, k, v = (_heads(y, HEADS) for y in self.qkv(x).chunk(3, -1))
        keys, values = keys.index_copy(2, place, k), values.index_copy(2, place, v)
        mask = torch.arange(keys.shape[2])[None] <= place[:, None]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask), (keys, values)


class StaticCache(Step):
    """The same with the caches in buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, HEADS, 16, WIDTH // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, 16, WIDTH // HEADS), persistent=False)

    def forward(self, x: Any, place: Any) -> Any:
        out, (keys, values) = super().forward(x, self.keys, self.values, place)
        self.keys.copy_(keys)
        self.values.copy_(values)
        return out


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def test_a_language_model_of_any_batch_and_length() -> None:
    model = Language().eval()
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    fast = attnpass.torch.compile(
        model,
        (torch.randint(40, (2, 9)),),
        {"attention_mask": torch.ones(2, 9, dtype=torch.int64)},
        dynamic_shapes={"input_ids": free, "attention_mask": free},
        # At O2 IREE 3.13 has no code for norms of any size on some CPUs.
        extra_args=["--iree-opt-level=O0"],
    )
    for shape in ((2, 9), (1, 4), (3, 16)):
        ids, seen = torch.randint(40, shape), torch.ones(shape, dtype=torch.int64)
        seen[0, shape[1] // 2 :] = 0
        got = fast(ids, attention_mask=seen)
        wanted = _reference(model, ids, attention_mask=seen)
        assert _error(got["logits"], wanted["logits"]) < 2e-5
        assert _error(got["hidden"][0], wanted["hidden"][0]) < 2e-5
        assert torch.equal(got["hidden"][1], ids + 1) and got["cache"] is None
    paths = [record.path for record in fast.report.attentions]
    assert paths == ["layers.0.self_attn", "layers.1.self_attn"]
    # Tied weights are one parameter, and none of them is in the program.
    assert sum(name in fast.parameters for name in ("embed.weight", "head.weight")) == 1
    assert all(tensor.nbytes >= 1024 for tensor in fast.parameters.values())
    with pytest.raises(attnpass.AttnError, match=r"'attention_mask': dim 1 is 16, where .* say 4"):
        fast(ids[:, :4], attention_mask=seen)


def test_masks_of_sequences_that_share_a_row() -> None:
    """As Hugging Face's models make them: a position that is not the next begins a sequence."""

    class Packed(torch.nn.Module):
        def forward(self, x: Any, positions: Any, seen: Any) -> Any:
            first = positions[:, :1] - 1
            part = (torch.diff(positions, prepend=first, dim=-1) != 1).cumsum(-1)
            rows = torch.arange(x.shape[1])
            mask = (part[:, :, None] == part[:, None]) & (rows[:, None] >= rows) & seen[:, None]
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 0, 1, 2, 3, 4, 5]])
    seen = torch.ones(2, 8, dtype=torch.bool)
    seen[0, 1] = seen[1, 3] = False
    args = torch.randn(2, 8, WIDTH), positions, seen
    fast = attnpass.torch.compile(Packed(), args)
    assert _error(fast(*args), _reference(Packed(), *args)) < 2e-5
    assert len(fast.report.attentions) == 1


def test_biases_that_are_read_by_the_distance_of_patches() -> None:
    """As BEiT and Swin read theirs: IREE 3.13 alone fails on torch.meshgrid."""

    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(5 * 3, HEADS))

        def forward(self, x: Any) -> Any:
            across, down = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
            across, down = across.flatten(), down.flatten()
            place = (across[:, None] - across + 2) * 3 + (down[:, None] - down + 1)
            bias = self.table[place.view(-1)].view(6, 6, HEADS).permute(2, 0, 1)
            return F.scaled_dot_product_attention(x, x, x, attn_mask=bias.to(x.dtype)[None])

    x = torch.randn(2, HEADS, 6, 8)
    model = Biased().eval()
    assert _error(attnpass.torch.compile(model, (x,))(x), _reference(model, x)) < 2e-5


def test_distances_are_subtracted_from_scores() -> None:
    """Numbers of places alone, which are no row's largest score."""

    class Distant(torch.nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            row, key = torch.arange(7)[:, None], torch.arange(9)
            slopes = torch.tensor([0.25, 0.5])[:, None, None]
            far = ((row - key).abs(), (row.float() - key).abs(), slopes * (row - key).abs())
            scores = q @ k.mT / 8**0.5
            return tuple(torch.softmax(scores - x.to(q.dtype), -1) @ k for x in far)

    q, k = torch.randn(2, 2, 7, 8), torch.randn(2, 2, 9, 8)
    fast = attnpass.torch.compile(Distant(), (q, k))
    for got, wanted in zip(fast(q, k), Distant()(q.double(), k.double()), strict=True):
        assert _error(got, wanted) < 2e-5


def test_sums_of_narrow_types_are_as_exact_as_pytorchs() -> None:
    class Sums(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return [self.sums(x, w) for x, w in given]

        def sums(self, x: Any, w: Any) -> Any:
            images = x.view(2, 8, 64, 64)
            return (
                F.layer_norm(x, x.shape[-1:], w, w),
                F.rms_norm(x, x.shape[-1:], w),
                F.group_norm(x, 8),
                F.instance_norm(images),
                F.softmax(x / 8, -1),
                F.log_softmax(x / 8, -1),
                F.normalize(x, dim=-1),
                F.adaptive_avg_pool2d(images, 1),
                F.avg_pool2d(images, 8),
                torch.var_mean(x, -1)[1],
                torch.logsumexp(x, -1),
                *(x.mean(), x.mean(-1), x.std(-1), x[:, :100].sum(-1), x[:, :64].cumsum(-1)),
            )

    wide = torch.randn(16, 4096) * 6 + 3, torch.rand(4096) + 0.5
    args = [[x.to(dtype) for x in wide] for dtype in (torch.float16, torch.bfloat16)]
    results = attnpass.torch.compile(Sums(), args)(*args)
    for given, got, eager in zip(args, results, Sums()(*args), strict=True):
        right = Sums().sums(*(x.double() for x in given))
        for ours, theirs, wanted in zip(got, eager, right, strict=True):
            assert ours.dtype == given[0].dtype
            assert _error(ours, wanted) <= 1.5 * _error(theirs, wanted) + 1e-4


def test_what_the_import_lacks_or_gets_wrong() -> None:
    """Ops that it has no name for, at once or once they are taken apart; and 2.5 * 3.2 is 8."""

    class Rest(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            norm = torch.nn.utils.parametrizations.weight_norm
            self.conv = norm(torch.nn.Conv1d(8, 8, 4, padding=2, groups=2), dim=2)

        def forward(self, x: Any, i: Any) -> Any:
            places = ((torch.arange(5) + 0.5) * 3.2).long()
            return (
                *(self.conv(x), x[:, :, places], places + i[:5]),
                *(F.interpolate(y, size=5, mode="nearest-exact") for y in (x, x[:1])),
                F.interpolate(x[:, None], size=(5, 7), mode="nearest-exact"),
                *(torch.fmod(x, 0.5), torch.fmod(x, x.flip(1)), torch.fmod(-i, 3)),
                *(x.abs().log10(), torch.isfinite(x / 0), x.nanmean(-1), torch.std_mean(x, 1)[0]),
                *(i | 4, i ^ 5),
            )

    model, args = Rest().eval(), (torch.randn(2, 8, 16), torch.arange(16))
    got = attnpass.torch.compile(model, args)(*args)
    with torch.no_grad():
        for ours, wanted in zip(got, model(*args), strict=True):
            assert ours.shape == wanted.shape and ours.dtype == wanted.dtype
            assert torch.allclose(ours, wanted, rtol=1e-5, atol=5e-6)


class StepOfDocuments(Step):
    """A step, beside attention in documents that are counted: the document of a row and of a key
    by one sum, where IREE alone reads one in the other's place."""

    def forward(self, *args: Any) -> Any:
        *step, rows, starts = args
        there = torch.arange(20)
        document = (there[None] >= starts[:, None]).sum(0)
        seen = (document[:, None] == document[None]) & (there[:, None] >= there[None])
        counted = F.scaled_dot_product_attention(rows, rows, rows, attn_mask=seen)
        return *super().forward(*step), counted


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
def test_a_step_with_its_cache_as_arguments(level: str) -> None:
    model = StepOfDocuments().eval()
    shape = (2, HEADS, 16, WIDTH // HEADS)
    args = torch.randn(2, 1, WIDTH), torch.randn(shape), torch.randn(shape), torch.tensor([5])
    args = *args, torch.randn(1, HEADS, 20, 8), torch.tensor([0, 5, 13])
    flags = [f"--iree-opt-level={level}"]
    fast = attnpass.torch.compile(model, args, extra_args=flags)
    before = copy.deepcopy(args)
    out, (keys, values), counted = fast(*args)
    assert all(torch.equal(x, y) for x, y in zip(args, before, strict=True))
    wanted, (wanted_keys, wanted_values), wanted_counted = _reference(model, *args)
    assert _error(out, wanted) < 2e-5 and _error(counted, wanted_counted) < 2e-5
    assert _error(keys, wanted_keys) < 2e-5 and _error(values, wanted_values) < 2e-5
    with pytest.raises(attnpass.AttnError, match="argument 1: dim 2 was compiled for 16, not 8"):
        fast(args[0], args[1][:, :, :8], *args[2:])


def test_a_cache_in_buffers_is_changed_by_calls() -> None:
    model = StaticCache().eval()
    eager = copy.deepcopy(model)
    fast = attnpass.torch.compile(model, (torch.randn(1, 1, WIDTH), torch.tensor([0])))
    with torch.no_grad():
        for place in range(3):
            x, where = torch.randn(1, 1, WIDTH), torch.tensor([place])
            assert _error(fast(x, where), eager(x, where)) < 2e-5
        assert _error(model.keys, eager.keys) < 2e-5
        assert _error(model.values, eager.values) < 2e-5


def test_a_softmax_over_any_number_of_keys() -> None:
    """What attn-raise leaves, as scores that a condition replaces by a small number are, compiles
    at O2, with positions that the function computes."""

    class Weights(torch.nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            scores = q @ k.transpose(-1, -2)
            place = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
            far = (torch.arange(k.shape[2]) - place).abs() > 3
            return torch.softmax(torch.where(far, -5.0, scores), -1) @ k

    rows, keys = (torch.export.Dim(name, max=512) for name in ("rows", "keys"))
    shapes = ({0: torch.export.Dim.DYNAMIC, 2: rows}, {0: torch.export.Dim.DYNAMIC, 2: keys})
    args = torch.randn(2, HEADS, 5, 8), torch.randn(2, HEADS, 9, 8)
    fast = attnpass.torch.compile(Weights(), args, dynamic_shapes=shapes)
    assert not fast.report.events
    for batch, m, n in ((2, 5, 9), (1, 1, 17), (3, 40, 40)):
        args = torch.randn(batch, HEADS, m, 8), torch.randn(batch, HEADS, n, 8)
        assert _error(fast(*args), _reference(Weights(), *args)) < 2e-5


def test_padded_keys_of_any_batch_and_length() -> None:
    """torch.nn.MultiheadAttention joins and cuts batch and heads of its mask: what is left of that
    is not in attention's kernel, which IREE has no code for then."""

    class Cross(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, x: Any, y: Any, padded: Any) -> Any:
            return self.attention(x, y, y, key_padding_mask=padded, need_weights=False)[0]

    batch, rows, keys = (torch.export.Dim(name, max=64) for name in ("batch", "rows", "keys"))
    shapes = {0: batch, 1: rows}, {0: batch, 1: keys}, {0: batch, 1: keys}

    def arguments(batch: int, rows: int, keys: int) -> tuple[Any, ...]:
        padded = torch.zeros(batch, keys, dtype=torch.bool)
        padded[0, keys // 2 + 1 :] = True
        return torch.randn(batch, rows, WIDTH), torch.randn(batch, keys, WIDTH), padded

    model = Cross().eval()
    fast = attnpass.torch.compile(model, arguments(2, 5, 7), dynamic_shapes=shapes)
    assert not fast.report.events and len(fast.report.attentions) == 1
    for sizes in ((2, 5, 7), (1, 1, 3), (3, 9, 40)):
        args = arguments(*sizes)
        assert _error(fast(*args), _reference(model, *args)) < 2e-5


def test_numbers_that_dynamo_leaves_open() -> None:
    """With `dynamic=True` the eps of a norm is an argument of the graph."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8, eps=1e-2)).eval()
    fast = torch.compile(model, backend="attnpass", dynamic=True)
    with torch.no_grad():
        for rows, eps in ((4, 1e-2), (7, 1e-2), (7, 5.0)):
            model[1].eps = eps
            x = torch.randn(rows, 8)
            assert _error(fast(x), _reference(model, x)) < 2e-5


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 5e-3), ("bfloat16", 2e-2)])
def test_narrow_types(dtype: str, bound: float) -> None:
    model = Block().eval().to(getattr(torch, dtype))
    x = torch.randn(2, 8, WIDTH).to(getattr(torch, dtype))
    got = attnpass.torch.compile(model, (x,))(x)
    assert got.dtype == x.dtype
    assert _error(got, _reference(model, x)) < bound


def test_views_that_join_and_cut_unknown_sizes() -> None:
    """IREE 3.13 alone gives other numbers, or takes no batch but 1; of rows that are padded to
    chunks it crashes, or gives no row."""

    class Views(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            batch, heads, rows, size = x.shape
            joined = x.permute(2, 0, 1, 3).reshape(rows * batch, heads * size)
            first = torch.einsum("...i,ji->...j", x, torch.eye(size)[:3])
            chunks = F.pad(x[:, 0], (0, 0, 0, -rows % 4)).view(batch, -1, 4, 2, size // 2)
            back = (chunks.cumsum(2) - chunks).flatten(1, 2)[:, :rows].flatten(2)
            return joined, (joined * 2).view(rows, batch, heads * size), first, chunks.sum(1), back

    free = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    fast = attnpass.torch.compile(Views(), (torch.randn(2, 4, 9, 8),), dynamic_shapes=(free,))
    for batch, rows in ((2, 9), (3, 5), (1, 1)):
        x = torch.randint(-9, 9, (batch, 4, rows, 8)).float()
        assert all(torch.equal(*pair) for pair in zip(fast(x), Views()(x), strict=True))


def test_indices_of_unknown_sizes() -> None:
    """IREE 3.13 imports no read by several that share one, as cubic samples of any number of images
    are, and writes of several unknown sizes into other memory."""

    class Indices(torch.nn.Module):
        def forward(self, x: Any, at: Any) -> Any:
            batch = torch.arange(x.shape[0])[:, None]
            grid = (at / 5).to(x.dtype)[:, :, None, None].expand(-1, -1, 1, 2)
            samples = F.grid_sample(x[:, None], grid, "bicubic", align_corners=False)
            reads = x[batch, :, at], x[:, at, at % 6], samples
            pages, steps = torch.zeros(9, 4, 6, dtype=x.dtype), torch.arange(x.shape[1])
            page, place = (batch + steps // 4) % 9, steps[None] % 4
            written = pages.index_put((page, place), x, accumulate=True)
            return *reads, written, torch.index_put(pages, (page, place), x[:1, :1, :1])

    rows = torch.export.Dim("rows", max=64)
    free = {0: rows, 1: torch.export.Dim("places", max=64)}
    example = torch.randn(3, 6, 6), torch.randint(-6, 6, (3, 2))
    fast = attnpass.torch.compile(Indices(), example, dynamic_shapes=(free, {0: rows}))
    for count, places in ((3, 6), (1, 8), (7, 13)):
        x, at = torch.randn(count, places, 6), torch.randint(-6, 6, (count, 2))
        for ours, wanted in zip(fast(x, at), Indices()(x.double(), at), strict=True):
            assert (ours - wanted).abs().max() < 1e-5


def test_numbers_of_sizes() -> None:
    """What the importer lacks of them; and torch.export takes for granted what a model asks them,
    and a float that it cuts."""

    class Numbers(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            count = x.shape[1]
            found = (math.ceil(count / 4), math.floor(count / 3), abs(count - 20), count >> 1)
            part = int(count * 0.1) + (2 if count % 2 else 3)
            return tuple(x.sum() * number for number in (*found, count << 2, -count % 4, part))

    free = {1: torch.export.Dim.AUTO}
    fast = attnpass.torch.compile(Numbers(), (torch.ones(2, 11),), dynamic_shapes=(free,))
    for count in (11, 15, 1):
        x = torch.ones(2, count)
        wanted = Numbers()(x)[: 7 if count > 1 else 6]
        assert fast(x)[: len(wanted)] == wanted
    for count, words in ((12, r"Ne\(Mod\(argument 0 dim 1, 2\), 0\)"), (21, r"Eq\(TruncToInt")):
        with pytest.raises(attnpass.AttnError, match=f"compiled for sizes of which {words}"):
            fast(torch.ones(2, count))


def test_views_have_sizes_of_their_source() -> None:
    """Of another argument's sizes the IR does not say that they are this one's: nothing would be
    fused across the view, nor attention read through it."""
    from attnpass.torch.views import split_views

    class Heads(torch.nn.Module):
        def forward(self, keys: Any, x: Any) -> Any:
            return keys.view(x.shape[0], -1, 4, 8) + x.shape[0]

    many, free = torch.export.Dim("many"), torch.export.Dim.DYNAMIC
    example = torch.ones(2, 9, 32), torch.ones(2, 3)
    graph = torch.export.export(
        Heads(), example, dynamic_shapes=({0: many, 1: free}, {0: many})
    ).graph
    split_views(graph, ())
    (view,) = graph.find_nodes(op="call_function", target=torch.ops.aten.view.default)
    assert [size.args for size in view.args[1][:2]] == [(view.args[0], 0), (view.args[0], 1)]


def test_an_argument_that_is_changed() -> None:
    class Adds(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            x.add_(y)
            return x.t() * 2

    fast = attnpass.torch.compile(Adds(), (torch.zeros(2, 3), torch.ones(2, 3)))
    # In another order of dims, and not at a multiple of 64 bytes.
    x, y = torch.zeros(3, 2).t(), torch.arange(7.0)[1:].view(2, 3)
    assert torch.equal(fast(x, y), (y * 2).t())
    assert torch.equal(x, y)


def test_torch_compile() -> None:
    from attnpass.torch.dynamo import backend

    model = StaticCache().eval()
    eager = copy.deepcopy(model)
    fast = torch.compile(model, backend=backend)
    with torch.no_grad():
        for place in range(3):
            x, where = torch.randn(1, 1, WIDTH), torch.tensor([place])
            assert _error(fast(x, where), eager(x, where)) < 2e-5
        assert _error(model.keys, eager.keys) < 2e-5


class Mixed(torch.nn.Module):
    """Weights of several kinds: tied, alone, and one that begins where no program reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16, bias=False)
        self.second = torch.nn.Linear(16, 16, bias=False)
        self.tied = torch.nn.Linear(16, 16, bias=False)
        self.tied.weight = self.first.weight
        self.shift = torch.nn.Parameter(torch.randn(17)[1:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(torch.relu(self.second(self.first(x)))) + self.shift


def test_weights_are_read_as_they_are_at_each_call() -> None:
    """Views of weights are kept between calls; their numbers and places may change between two."""
    from attnpass.torch.dynamo import backend

    torch.manual_seed(3)
    model = Mixed().eval()
    fast = torch.compile(model, backend=backend)
    x = torch.randn(5, 16)

    def same() -> None:
        with torch.no_grad():
            assert _error(fast(x), _reference(model, x)) < 1e-6

    same()
    same()
    with torch.no_grad():
        model.first.weight.mul_(2)
        model.second.weight.add_(1)
        model.shift.sub_(3)
    same()
    model.second.weight.data = torch.randn(16, 16)
    model.shift.data = torch.randn(16)
    same()
    model.load_state_dict({key: torch.randn_like(one) for key, one in model.state_dict().items()})
    same()
    # A weight whose dims lie in another order, and one of which there are two views.
    model.second.weight.data = torch.randn(16, 16).t()
    same()
    both = torch.randn(32, 16)
    model.first.weight.data, model.second.weight.data = both[:16], both[16:]
    same()
    both.neg_()
    same()


def test_a_graph_without_arguments() -> None:
    from attnpass.torch.dynamo import backend

    fast = torch.compile(lambda: torch.arange(6.0) * 2, backend=backend)
    assert torch.equal(fast(), torch.arange(6.0) * 2)


def test_the_backend_is_an_entry_point() -> None:
    from attnpass.torch.dynamo import backend

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    group = "torch_dynamo_backends"
    ((name, value),) = project["entry-points"][group].items()
    assert name == "attnpass"
    assert importlib.metadata.EntryPoint(name, value, group).load() is backend


def test_an_exported_program_and_turbines_output() -> None:
    model = Block().eval()
    x = torch.randn(2, 8, WIDTH)
    wanted = _reference(model, x)
    program = torch.export.export(model, (x,))
    assert _error(attnpass.torch.compile(program)(x), wanted) < 2e-5
    with pytest.raises(TypeError, match="example arguments go with a"):
        attnpass.torch.compile(program, (x,))
    aot = pytest.importorskip("iree.turbine.aot", reason="no iree-turbine")
    output = aot.export(model, args=(x,))
    assert _error(attnpass.torch.compile(output)(x), wanted) < 2e-5
    with pytest.warns(RuntimeWarning, match="from before IREE's input conversion"):
        assert attnpass.run(output).attentions == []


def test_flex_attention() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Biased(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            def score(s: Any, batch: Any, head: Any, row: Any, key: Any) -> Any:
                return s + 0.1 * (row - key)

            return flex.flex_attention(q, k, v, score_mod=score)

    q, k, v = (torch.randn(1, 2, 16, 16) for _ in range(3))
    got = attnpass.torch.compile(Biased(), (q, k, v))(q, k, v)
    places = torch.arange(16.0).double()
    scores = q.double() @ k.double().mT / 4 + 0.1 * (places[:, None] - places)
    assert _error(got, scores.softmax(-1) @ v.double()) < 2e-5


class WrittenMask(torch.nn.Module):
    """Attention to itself, as it comes, with a first key that all see."""

    def forward(self, x: Any, seen: Any) -> Any:
        rows = seen[:, None, None].repeat(1, 1, seen.shape[1], 1)
        mask = rows & rows.mT
        mask[..., 0] = True
        for _ in range(2):
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        return x


def test_a_mask_that_is_written_and_an_argument_that_is_all_operands() -> None:
    x, seen = torch.randn(1, 2, 9, 10), torch.tensor([[True] * 6 + [False] * 3])
    fast = attnpass.torch.compile(WrittenMask(), (x, seen))
    assert not fast.report.events and len(fast.report.attentions) == 2
    assert _error(fast(x, seen), WrittenMask()(x.double(), seen)) < 2e-5


class Strides(torch.nn.Module):
    """Sizes in integer buffers, as audio codecs and vision towers have them."""

    def __init__(self, write: Any = lambda size: size):
        super().__init__()
        self.conv = torch.nn.Conv1d(3, 4, 5, stride=2)
        self.register_buffer("stride", torch.tensor(2), persistent=False)
        self.register_buffer("size", torch.tensor(5), persistent=False)
        self.register_buffer("grids", torch.tensor([[1, 2, 3], [1, 3, 1]]))
        self.write = write

    def forward(self, x: Any) -> Any:
        steps = torch.ceil((x.shape[-1] - self.size) / self.stride).long()
        more = steps * self.stride + self.size - x.shape[-1]
        if more > 0:
            x = F.pad(x, (self.size - self.stride, more), mode="reflect")
        x = self.conv(x)
        table = torch.full((4, 3), -1)
        for t, h, w in self.grids.tolist():
            table[:h, :w] += torch.arange(t * h * w).reshape(h, w)
        self.write(self.size)
        return x[..., table[table >= 0]], x[..., : self.stride]


def test_sizes_that_torch_takes_for_one() -> None:
    """Of a length left to torch that a pool takes for the example's, another one is refused, as
    PyTorch does: its windows are counted for one."""

    class Pool(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return F.max_pool1d(x.transpose(1, 2), 2), F.adaptive_max_pool2d(x, 1)

    free = torch.export.Dim.AUTO
    x, other = torch.randn(2, 12, 8), torch.randn(5, 12, 8)
    compiled = attnpass.torch.compile(Pool(), (x,), dynamic_shapes=({0: free, 1: free},))
    for got, wanted in zip(compiled(other), Pool()(other), strict=True):
        assert torch.equal(got, wanted)
    with pytest.raises(attnpass.AttnError, match="dim 1 was compiled for 12, not 20"):
        compiled(torch.randn(2, 20, 8))


def test_sizes_that_a_model_holds_in_buffers() -> None:
    model, x = Strides().eval(), torch.randn(2, 3, 16)
    fast = attnpass.torch.compile(model, (x,), device="cpu")
    for got, wanted in zip(fast(x), _reference(model, x), strict=True):
        assert _error(got, wanted) < 1e-6


class Random(torch.nn.Module):
    def __init__(self, draw: Any = F.dropout):
        super().__init__()
        self.draw = draw

    def forward(self, x: Any) -> Any:
        # This one draws none.
        return self.draw(F.alpha_dropout(x, 0.5, False), 0.5)


class Branches(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": Random()}, r"random numbers \(aten.dropout.default\): call model.eval\(\)"),
        ({"model": Random(torch.Tensor.log_normal_)}, r"random numbers \(aten.log_normal_.default"),
        (
            {"model": Random(lambda x, _: torch.geqrf(x)[0]), "args": (torch.eye(2),)},
            rf"{__file__}:\d+:0: error: IREE 3.13 has no aten.geqrf.default",
        ),
        (
            {"model": Branches()},
            rf"{__file__}:\d+:0: error: torch.export cannot export Branches: Could not guard",
        ),
        *(
            (
                {"model": Strides(write), "args": (torch.ones(1, 3, 16),)},
                "torch.export cannot export Strides: Could not guard",
            )
            for write in (lambda size: size.add_(1), lambda size: F.threshold(size, 9, 7, True))
        ),
        (
            {
                "model": torch.nn.Linear(2, 3),
                "dynamic_shapes": ({0: torch.export.Dim("rows", max=9)},),
            },
            r"Constraints violated \(rows\)! - .* Suggested fixes: rows = 2",
        ),
        ({"device": "tpu"}, r"no device is called 'tpu' \(there are: cpu"),
        ({"device": "cpu:7"}, r"there is no device 'cpu:7' here \(there are: cpu"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], words: str) -> None:
    chosen = {"model": torch.nn.Identity(), "args": (torch.ones(2),), **arguments}
    with pytest.raises(attnpass.AttnError, match=words):
        attnpass.torch.compile(**chosen)


def test_other_doors_name_this_one() -> None:
    with pytest.raises(TypeError, match=r"Identity; attnpass.torch.compile takes models of torch"):
        attnpass.compile_str(torch.nn.Identity())
    with pytest.raises(TypeError, match=r"unknown option 'taget'; did you mean 'target'\?"):
        attnpass.torch.compile(torch.nn.Identity(), (torch.ones(2),), taget="sm_80")


def test_powers_are_numbers_below_zero() -> None:
    class Powers(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return [
                (x**y, (-1.0) ** y, 1.0 ** (x * y), x**3, x**0.25, x**-2.5, x**infinite, z**33)
                for x, y, z in given
            ]

    infinite = float("inf")
    bases = [0, 0, 0, 0, -1, -2, -2, -2, 2, infinite, -infinite, 1, -3]
    exponents = [0, 1, 2, -1, 3, 2, 0.5, 0, 0, 0, 3, infinite, -2]
    ones = torch.linspace(-1.1, -0.8, 16)
    given = [
        [torch.tensor(bases, dtype=dtype), torch.tensor(exponents, dtype=dtype), ones.to(dtype)]
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
    ]
    results = attnpass.torch.compile(Powers(), given)(*given)
    for (_, _, ones), found, right in zip(given, results, Powers()(*given), strict=True):
        for got, expected in zip(found[:-1], right[:-1], strict=True):
            assert torch.allclose(got, expected, rtol=2e-2, equal_nan=True)
        # In narrow types only the result is rounded.
        dtype = ones.dtype
        rounding = torch.finfo(dtype).eps * (1 if dtype != torch.float32 else 32)
        assert torch.allclose(found[-1].double(), ones.double() ** 33, rtol=rounding)
        assert found[-1].dtype == right[-1].dtype
