"""Gradients of compiled graphs, by PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

REFUSED = (
    "attnpass compiles inference, not gradients: call the model under torch.no_grad() or "
    "torch.inference_mode()"
)
REFUSED_CHANGES = f"{REFUSED} (of what changes its arguments)"


def are_wanted(values: Sequence[Any]) -> bool:
    """Whether torch keeps what a result is made of, for gradients of `values`."""
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class Differentiable:
    """`compiled`, which computes what `graph` does, with results that have gradients.

    Those are PyTorch's: it runs `graph` again where they are asked for, and all of it from then on,
    since attnpass would only add to what a training step costs. It does at once where hooks on
    saved tensors (checkpoints) say that they will be. `results` are what they were traced as.
    """

    def __init__(
        self, compiled: Callable[..., Any], graph: torch.fx.GraphModule, results: Sequence[Any]
    ):
        self._compiled, self._graph = compiled, graph
        self._are_constant = [
            isinstance(result, torch.Tensor) and not result.requires_grad for result in results
        ]
        self._is_trained = False

    def __call__(self, *arguments: Any) -> Any:
        # What is saved for gradients must be the same when a checkpoint runs the call again.
        if self._is_trained or torch._C._autograd._top_saved_tensors_default_hooks(True):
            return self._graph(*arguments)
        return _GradientCall.apply(self, *arguments)

    def run(self, ctx: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a call, with what their gradients need in `ctx`."""
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.others = [None if isinstance(value, torch.Tensor) else (value,) for value in arguments]
        results = tuple(self._compiled(*arguments))
        pairs = zip(results, self._are_constant, strict=True)
        ctx.mark_non_differentiable(*(result for result, constant in pairs if constant))
        ctx.set_materialize_grads(False)
        return results

    def gradients(self, ctx: Any, given: Sequence[torch.Tensor | None]) -> list[Any]:
        """The gradients of the arguments of a call, of those of its results."""
        if not self._is_trained:
            self._is_trained = True
            warnings.warn(
                "attnpass compiles inference: PyTorch runs this graph from now on, since its "
                "gradients were asked for",
                RuntimeWarning,
                stacklevel=2,
            )
        twice = torch.is_grad_enabled()
        saved = iter(ctx.saved_tensors)
        arguments = [next(saved) if other is None else other[0] for other in ctx.others]

        def alone(value: Any) -> Any:
            """An argument, apart from others that it is made of."""
            if not isinstance(value, torch.Tensor):
                return value
            if twice:
                return value.view_as(value)
            return value.detach().requires_grad_(value.requires_grad)

        with torch.enable_grad():
            arguments = [alone(value) for value in arguments]
            results = self._graph(*arguments)
        pairs = [
            (result, gradient)
            for result, gradient in zip(results, given, strict=True)
            if gradient is not None and result.requires_grad
        ]
        places = [
            place
            for place, value in enumerate(arguments)
            if isinstance(value, torch.Tensor) and value.requires_grad
        ]
        found: list[Any] = [None] * len(arguments)
        if pairs:
            gradients = torch.autograd.grad(
                [result for result, _ in pairs],
                [arguments[place] for place in places],
                [gradient for _, gradient in pairs],
                allow_unused=True,
                create_graph=twice,
            )
            for place, gradient in zip(places, gradients, strict=True):
                found[place] = gradient
        return found


class _GradientCall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, owner: Differentiable, *arguments: Any) -> Any:
        ctx.owner = owner
        return owner.run(ctx, arguments)

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor | None) -> Any:
        return None, *ctx.owner.gradients(ctx, given)
