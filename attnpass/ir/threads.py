"""Calls of MLIR that must stay in the thread that makes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from iree.compiler import ir


@contextlib.contextmanager
def one_thread(context: ir.Context) -> Iterator[None]:
    """Keeps MLIR to this thread.

    For calls of the bindings that may end in diagnostics: they hold Python's lock, and the
    handlers that diagnostics go to take it. Where an error is another thread's, as it may be in
    nested modules, both wait for ever (IREE 3.13).
    """
    if context.get_num_threads() == 1:
        yield
        return
    context.enable_multithreading(False)
    try:
        yield
    finally:
        context.enable_multithreading(True)


def verify(op: ir.Operation) -> None:
    """Raises MLIRError, with its diagnostics, where `op` or an op in it is invalid."""
    with one_thread(op.context):
        op.verify()
