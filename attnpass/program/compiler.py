"""What a door compiles its programs with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..driver.tools import check_options, compile_str
from ..report.records import Report
from .devices import open_device


class ProgramCompiler:
    """Compiles programs for the device that users call `device`, with `options` of `compile_str`,
    and fills in `report`, a new one if none is given. AttnError where there is no such device, and
    what `compile_str` raises for options that are none."""

    def __init__(self, device: str, report: Report | None, options: Mapping[str, Any]):
        check_options(options)
        self.device, self.options = open_device(device), options
        self.report = Report() if report is None else report

    def compile(self, module: object, input_type: str, doubles: bool = False) -> bytes:
        """A front end's module as a program; one that computes in `doubles` keeps them."""
        options = {"input_type": input_type, "target_backends": [self.device.backend]}
        options |= self.options
        given = [str(flag) for flag in options.get("extra_args", ())]
        kept = ["--iree-input-demote-f64-to-f32=false"] if doubles else []
        options["extra_args"] = [*self.device.flags(given), *kept, *given]
        vmfb = compile_str(module, report=self.report, **options)
        if vmfb is None:
            raise TypeError("output_file is no option of a door: a program is run; see its `vmfb`")
        return vmfb
