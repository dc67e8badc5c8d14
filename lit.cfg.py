"""lit configuration: .mlir tests under test/ run from the source tree."""

# ruff: noqa: F821  (`config` and `lit_config` are given by lit)
import os
import sys

import lit.formats

root = os.path.dirname(os.path.abspath(__file__))
tools = os.path.dirname(sys.executable)

config.name = "attnpass"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".mlir"]
config.excludes = ["models", "Output"]
config.test_source_root = root
config.test_exec_root = os.path.join(root, "build", "lit")
config.environment["PYTHONPATH"] = root
config.environment["PATH"] = os.pathsep.join([tools, os.environ.get("PATH", "")])
config.maxIndividualTestTime = 60

config.substitutions += [
    ("attn-opt", f"{sys.executable} -m attnpass.cli.attn_opt"),
    ("attn-compile", f"{sys.executable} -m attnpass.cli.attn_compile"),
    ("FileCheck", f"{os.path.join(tools, 'filecheck')}"),
    (
        "%cpu",
        "--iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu "
        "--iree-llvmcpu-target-cpu=generic",
    ),
]
