"""Results that a program writes to torch's memory, as on GPUs: here on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from attnpass.torch.compiled import compile_program  # noqa: E402
from attnpass.torch.exported import export  # noqa: E402


class Step(torch.nn.Module):
    """Results of known sizes, of sizes made of arguments', of none; of each type; arguments, and
    one value twice; numbers and nothing between them."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(16, 8)
        self.register_buffer("seen", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Any, cache: Any) -> Any:
        self.seen.add_(1)
        keys = torch.cat([cache, x], 0)
        made = self.project(x)
        pairs = (keys[:, None] + keys[None]).sum(-1)
        return {
            "made": made,
            "again": made,
            "given": x,
            "keys": keys,
            "count": keys.shape[0],
            "pairs": pairs,
            "nothing": None,
            "total": made.sum(),
            "half": keys.half(),
            "wide": keys.double(),
            "brain": made.bfloat16(),
            "above": made > 0,
            "bytes": (keys > 0).to(torch.uint8),
            "codes": (4 * made).to(torch.int8),
            "places": keys.argmax(1),
            "rows_above": torch.nonzero(torch.ones(3)),
            "no_row": keys[:0],
            "parts": made.reshape(2, 2, 8).transpose(0, 1),
        }


def test_results_are_written_to_memory_of_torch() -> None:
    rows = torch.export.Dim("rows", max=64)
    given = [torch.randn(4, 16), torch.randn(5, 16)]
    wanted, model = Step().eval(), Step().eval()
    model.load_state_dict(wanted.state_dict())
    with torch.no_grad():
        fast = compile_program(
            export(model, given, None, ({}, {0: rows}), strict=False),
            "cpu",
            None,
            {},
            lends=True,
        )
        kept = []
        for count in (5, 1, 13):
            given = [torch.randn(4, 16), torch.randn(count, 16)]
            got, right = fast(*given), wanted(*given)
            kept.append((got, right))
        # What a call returned the next one leaves as it is.
        for got, right in kept:
            assert got.keys() == right.keys()
            for name, value in right.items():
                if isinstance(value, torch.Tensor):
                    torch.testing.assert_close(got[name], value, msg=name)
                else:
                    assert got[name] == value, name
    held = {id(one) for one in fast._program._destinations if one is not None}
    assert len(held) > 10
    torch.testing.assert_close(model.seen, wanted.seen)
