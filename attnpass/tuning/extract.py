"""Finds the distinct attentions of a module and writes them as problems to tune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..attention import describe, find_ops
from ..configs.search import search
from ..errors import AttnError
from ..targets import Target
from .problem import Problem, describe_problem, module_text, problem_data

if TYPE_CHECKING:
    from iree.compiler import ir

PROBLEMS = "problems.json"


def extract_all(
    module: ir.Operation, target: Target | None, folder: str, assume: int, plain: bool
) -> None:
    """Writes PROBLEMS, which lists the problems and what was passed over, and `<key>.mlir` for
    each problem, into `folder`. Needs a current context."""
    problems: dict[str, Problem] = {}
    texts: dict[str, str] = {}
    passed: list[str] = []
    for op in find_ops(module):
        try:
            facts = describe(op)
        except AttnError as error:
            # IREE folds unit dims before this phase: a single key leaves no k2 dim.
            passed.append(f"attention at {error.location}: {error.message}")
            continue
        place = f"{facts.kind} at {facts.place}"
        if target is None:
            passed.append(f"{place}: the module names no single target")
            continue
        found = search(facts, target, plain)
        if not found.candidates:
            passed.append(f"{place}: {', '.join(found.pruned) or 'no configuration to try'}")
            continue
        problem = describe_problem(facts, target.name, assume)
        if problem.key not in problems:
            problem.candidates, problem.pruned = found.candidates, dict(found.pruned)
            problems[problem.key] = problem
            texts[problem.key] = module_text(facts, problem)
        problems[problem.key].places.append(place)
    data = {"problems": [problem_data(p) for p in problems.values()], "passed": passed}
    try:
        for key, text in texts.items():
            (Path(folder) / f"{key}.mlir").write_text(text)
        (Path(folder) / PROBLEMS).write_text(json.dumps(data, indent=1) + "\n")
    except OSError as error:
        raise AttnError(f"cannot write there: {(error.strerror or '').lower()}", folder) from None
