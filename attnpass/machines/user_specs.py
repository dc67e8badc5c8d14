"""Configurations that a user hands to IREE by a flag: what they are for is left to them.

IREE 3.13 reads a tuning spec, or a library of transforms, when it chooses configurations,
long after `flow`, and such a spec leaves ops alone that have one by then. So the same spec is
tried on a copy of each dispatch before ours are attached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir import descendants, detached_copy, symbol_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iree.compiler import ir

    from . import Target

TUNING_SPEC = "--iree-codegen-tuning-spec-path"
LIBRARY = "--iree-codegen-transform-dialect-library"
_GENERALIZE = "iree-codegen-gpu-generalize-named-ops"
_ONLINE = "iree-linalg-ext-convert-attention-to-online-attention"


@dataclass(frozen=True)
class UserSpecs:
    """Paths that a session's flags give, empty where they give none."""

    tuning_spec: str = ""
    library: str = ""

    @property
    def alone_at(self) -> tuple[str, ...]:
        """The phases that must run in one thread: IREE 3.13 holds a lock while it reads such a
        file, and takes up another dispatch meanwhile, which may wait for that lock for ever."""
        return ("executable-configurations",) if self.tuning_spec or self.library else ()

    def unread(self, target: Target) -> str:
        """Why the tuning spec has no effect on this machine, and what has; '' where it has."""
        if not self.tuning_spec or target.reads_tuning_specs:
            return ""
        return (
            f"IREE 3.13 does not read {TUNING_SPEC} for {target.backend}: give the spec by "
            f"{LIBRARY}={self.tuning_spec}"
        )

    def configured(self, module: ir.Operation, target: Target) -> dict[str, str]:
        """The flag that configures a dispatch's function, by the function's name.

        `module` is one at phase `flow`. A spec that IREE cannot apply configures nothing here:
        IREE says why when it comes to it.
        """
        spec = "" if self.unread(target) else self.tuning_spec
        if not spec and not self.library:
            return {}
        flag = LIBRARY if self.library else TUNING_SPEC
        functions: dict[str, str] = {}
        for inner in descendants(module, "flow.executable", "builtin.module"):
            copy = detached_copy(inner)
            if _apply(copy, "" if self.library else spec, target):
                functions.update(dict.fromkeys(_configured_functions(copy), flag))
        return functions


def specs_in(flags: Iterable[str]) -> UserSpecs:
    """What flags of the compiler, as `--name=value`, say of specs."""
    values = dict(flag.split("=", 1) for flag in flags if "=" in flag)
    return UserSpecs(values.get(TUNING_SPEC, ""), values.get(LIBRARY, ""))


def _apply(module: ir.Operation, spec: str, target: Target) -> bool:
    """Runs what IREE runs on a dispatch up to its user's configurations; whether it could."""
    from iree.compiler import ir, passmanager

    from ..ir.threads import one_thread

    passes = [f"func.func({_ONLINE})", "iree-codegen-materialize-user-configs"]
    if target.is_gpu:
        passes.insert(0, f"func.func({_GENERALIZE})")
    if spec:
        passes.insert(-1, f"iree-codegen-materialize-tuning-specs{{tuning-spec-path={spec}}}")
    try:
        manager = passmanager.PassManager.parse(f"builtin.module({','.join(passes)})")
        with one_thread(module.context):
            manager.run(module)
    except (ir.MLIRError, ValueError):
        # ValueError: another IREE, which has no pass of one of these names.
        return False
    return True


def _configured_functions(module: ir.Operation) -> list[str]:
    return [
        symbol_name(function)
        for function in descendants(module, "func.func")
        if "translation_info" in function.attributes
    ]
