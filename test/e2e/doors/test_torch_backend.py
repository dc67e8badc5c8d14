"""`torch.compile(..., backend="attnpass")` as scripts use it: training steps, views, threads."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import pytest

import attnpass

torch = pytest.importorskip("torch", reason="the door for torch is not tested: no torch")
F = torch.nn.functional

WIDTH = 16


@pytest.fixture(autouse=True)
def _forgotten() -> Any:
    torch.manual_seed(5)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were compiled."""
    from attnpass.program import compiler

    found: list[Any] = []
    original = compiler.compile_str

    def counted(module: Any, **options: Any) -> Any:
        found.append(module)
        return original(module, **options)

    monkeypatch.setattr(compiler, "compile_str", counted)
    return found


def _compiled(model: Any, **options: Any) -> Any:
    from attnpass.torch.dynamo import backend

    return torch.compile(model, backend=backend, **options)


def _same(found: Any, expected: Any, bound: float = 2e-5) -> None:
    pairs = zip(
        torch.utils._pytree.tree_leaves(found),
        torch.utils._pytree.tree_leaves(expected),
        strict=True,
    )
    for one, other in pairs:
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert (one.double() - other.double()).abs().max() < bound


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.project = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        projected = self.project(self.norm(x)).unflatten(-1, (3, 4, 4))
        q, k, v = projected.movedim(-3, 0).transpose(2, 3)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.out(heads.transpose(1, 2).flatten(2))
        return y, y.argmax(-1), x.detach() * 2


def test_a_training_step() -> None:
    """Gradients are those of PyTorch, which from then on runs the graph."""
    fast = Block()
    eager = copy.deepcopy(fast).double()
    step = _compiled(fast)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (fast, eager)]
    for number in range(3):
        x = torch.randn(2, 5, WIDTH)
        given = [x.requires_grad_(), x.detach().double().requires_grad_()]
        for run, optimizer, value in zip((step, eager), optimizers, given, strict=True):
            optimizer.zero_grad()
            results = run(value)
            assert [result.requires_grad for result in results] == [True, False, False]
            loss = results[0].square().mean()
            if run is step and number == 0:
                with pytest.warns(RuntimeWarning, match="PyTorch runs this graph from now on"):
                    loss.backward()
            else:
                loss.backward()
            optimizer.step()
        _same(given[0].grad.double(), given[1].grad)
    _same([one.double() for one in fast.parameters()], list(eager.parameters()))


def test_gradients_of_gradients() -> None:
    x = torch.randn(3, 4, requires_grad=True)

    def twice(f: Any, x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(f(x), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x).sum()

    with pytest.warns(RuntimeWarning, match="inference"):
        found = twice(_compiled(f), x)
    _same(found.double(), twice(f, x.detach().double().requires_grad_()))


def test_gradients_of_arguments_that_are_made_of_one_another() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).sin().sum()

    def both(f: Any, x: torch.Tensor) -> Any:
        (first,) = torch.autograd.grad(f(x, x * 2), x, create_graph=True)
        return first.detach(), *torch.autograd.grad(first.sum(), x)

    x = torch.randn(3, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="inference"):
        found = both(_compiled(f), x)
    expected = both(f, x.detach().double().requires_grad_())
    _same([one.double() for one in found], expected)


def test_checkpoints() -> None:
    """A checkpoint runs a call again in the backward pass, as it was."""
    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(3)]
    fast = [_compiled(layer) for layer in layers]

    def step(layers: Any, x: torch.Tensor) -> Any:
        for layer in layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return torch.autograd.grad(x.square().sum(), list(layers[0].parameters()))

    for _ in range(2):
        x = torch.randn(2, 8, requires_grad=True)
        _same(step(fast, x), step(layers, x))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (torch.nn.Dropout(0.5).train(), r"random numbers \(aten.dropout.default\)"),
        (lambda x: torch.linalg.eigvalsh(x @ x.T), "IREE 3.13 has no aten._linalg_eigh"),
        (torch.nn.BatchNorm1d(WIDTH).train(), "gradients.* changes its arguments"),
    ],
)
def test_what_pytorch_runs(model: Any, words: str) -> None:
    """A graph that is not compiled is run by PyTorch, and a warning says why."""
    x = torch.randn(4, WIDTH)
    other = copy.deepcopy(model)
    with pytest.warns(RuntimeWarning, match=words):
        torch.manual_seed(1)
        found = _compiled(model)(x)
    torch.manual_seed(1)
    assert torch.equal(found, other(x))
    if isinstance(model, torch.nn.Module):
        _same(list(model.buffers()), list(other.buffers()))


def test_mistakes_of_the_caller() -> None:
    x = torch.ones(4)
    for options, words in (
        ({"device": "tpu"}, "no device is called 'tpu'"),
        ({"mode": "wild"}, "'wild' is not a value of --attn-mode"),
        ({"taget": "sm_80"}, "did you mean 'target'"),
    ):
        with pytest.raises(Exception, match=words), torch.no_grad():
            _compiled(lambda x: x * 2, options=options)(x)
    with pytest.warns(RuntimeWarning, match="it has no effect on attnpass"), torch.no_grad():
        found = torch.compile(lambda x: x + 1, backend="attnpass", mode="max-autotune")(x)
    assert torch.equal(found, x + 1)


def test_views_are_of_the_memory_that_they_were() -> None:
    """What is written behind a graph break to a view is seen in the tensor, and the other way."""

    def f(x: torch.Tensor) -> Any:
        part, made = x[1:].t(), x * 2
        flat, rows = made.view(-1), made.unbind(0)
        torch._dynamo.graph_break()
        part.add_(5)
        flat[:2] = 9
        rows[1].zero_()
        return x, part, made, flat, rows[1]

    for dynamic in (False, True):
        fast = _compiled(f, dynamic=dynamic)
        for start in (0, 3):
            x = torch.randn(7, WIDTH)[start:]
            expected = x.double().clone()
            with torch.no_grad():
                found = fast(x)
                assert found[0] is x
                _same([one.double() for one in found], f(expected))
            assert found[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert found[3].data_ptr() == found[2].data_ptr()


@pytest.mark.parametrize("kind", ["parts", "types"])
def test_results_that_share_elements(kind: str, compiles: list[Any]) -> None:
    """Views of what is no result are views of one tensor; PyTorch makes those of another type."""

    def f(x: torch.Tensor) -> Any:
        if kind == "types":
            one, other = x.view(torch.int32), x.sin()
        else:
            made = x.sin() * 2
            one, other = made[1], made[:2]
        torch._dynamo.graph_break()
        one.zero_()
        return x, one, other

    x = torch.randn(3, 4)
    expected = f(x.clone())
    with torch.no_grad():
        _same(_compiled(f)(x), expected)
    assert len(compiles) == (2 if kind == "parts" else 1)


def test_gradients_switched_off_for_what_follows() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.set_grad_enabled(False)
        return y

    try:
        with pytest.warns(RuntimeWarning, match="switches gradients on or off"):
            _compiled(f)(torch.ones(3))
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_weights_go_away_with_their_model() -> None:
    models = [torch.nn.Linear(WIDTH, 8) for _ in range(2)]
    x = torch.randn(4, WIDTH)
    fast = [_compiled(model) for model in models]
    with torch.no_grad():
        for run in (*fast, *fast):
            run(x)
    weight = weakref.ref(models[0].weight)
    del models[0], fast[0], run
    gc.collect()
    assert weight() is None
    with torch.no_grad():
        _same(fast[0](x), models[0](x))


@torch._dynamo.config.patch(recompile_limit=2)
def test_open_numbers_are_compiled_a_few_times(compiles: list[Any]) -> None:
    fast = _compiled(lambda x, number: x * number, dynamic=True)
    x = torch.randn(4, 5)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="pass it as a tensor"):
        for number in (0.5, 1.5, 2.5, 3.5):
            _same(fast(x, number), x * number)
    assert len(compiles) == 2


def test_arguments_that_share_elements() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    fast = _compiled(f)
    a, b = torch.randn(2, 6), torch.randn(8)
    expected = b.clone()
    with torch.no_grad():
        _same(fast(a[0], a[1]), f(a[0].clone().sub_(1), a[1]))
        with pytest.warns(RuntimeWarning, match="elements of another argument"):
            found = fast(b[:6], b[2:])
        _same(found, f(expected[:6], expected[2:]))
    _same(b, expected)


def test_equal_graphs_are_compiled_once(compiles: list[Any]) -> None:
    first, second = (torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.Tanh()) for _ in "ab")
    x, errors = torch.randn(4, WIDTH), []
    fast, other = _compiled(first), _compiled(second)

    def call() -> None:
        try:
            with torch.no_grad():
                for _ in range(5):
                    _same(fast(x), first(x))
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    turned = torch.randn(WIDTH, 4).t()
    with torch.no_grad():
        _same(fast(turned), first(turned))
        _same(other(x), second(x))
        _same(fast(x), first(x))
    with torch.inference_mode():
        _same(fast(x), first(x))
    _same(fast(x), first(x))
    assert len(compiles) == 1
    # Other numbers, types and sizes are other programs.
    with torch.no_grad():
        for number in (2.0, 3.0):
            _same(_compiled(lambda x, number=number: x * number)(x), x * number)
        wide = _compiled(lambda x: x * 2.0)
        _same(wide(x.double()), x.double() * 2)
    assert len(compiles) == 4


def test_a_report_of_all_graphs() -> None:
    report = attnpass.Report()
    block = Block().eval()
    with torch.no_grad():
        _compiled(block, options={"report": report})(torch.randn(2, 5, WIDTH))
    assert [one.operands[0].operand for one in report.attentions] == ["query"]
