"""attn-extract: each distinct attention alone in a file, with configurations worth trying."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..attention.facts import describe, find_ops
from ..errors import AttnError, PipelineError
from ..machines import Target
from ..machines.search import search
from ..passes import PassContext, TargetPass, option
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


@dataclass(frozen=True)
class Extract(TargetPass):
    """Writes `problems.json` and a module for each distinct attention into `folder`.

    Attention of the same types, maps and score function counts once. The file says what
    attn-tune may try for each, or why nothing is known to be right; sizes known only at run
    time are taken to be `assume`. The module that the pass runs on is left as it is.
    """

    name = "attn-extract"
    summary = "write each attention, alone, with configurations to try"
    phase = "flow"

    folder: str = option("", "where the files go; it must exist")
    plain: bool = option(False, "search for iree-compile, without kernels of our own")
    assume: int = option(512, "what a size known only at run time is taken to be")

    def __post_init__(self) -> None:
        if not self.folder.strip("{}"):
            raise PipelineError(f"pass '{self.name}': option 'folder' is needed")
        if self.assume < 1:
            raise PipelineError(f"pass '{self.name}': option 'assume' takes a number from 1 on")

    def run(self, module: ir.Operation, context: PassContext) -> bool:
        target = self.target_for(module, context)
        extract_all(module, target, self.folder.strip("{}"), self.assume, self.plain)
        return False
