"""lit configuration: .mlir tests under test/ run from the source tree."""

# ruff: noqa: F821  (`config` and `lit_config` are given by lit)
import os
import shlex
import sys

import lit.formats

root = os.path.dirname(os.path.abspath(__file__))
tools = os.path.dirname(sys.executable)

config.name = "attnpass"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs", "blocks", "known", "models", "Output"]
config.test_source_root = root
config.test_exec_root = os.path.join(root, "build", "lit")
config.environment["PATH"] = os.pathsep.join([tools, os.environ.get("PATH", "")])
# Seconds, for tests that hang: others take one, or many on a busy machine.
config.maxIndividualTestTime = 300

sys.path.insert(0, os.path.join(root, "test"))
import warm  # noqa: E402

# Not within a word, an option or a file's name.
config.substitutions += [
    (rf"(?<![\w/.-]){tool}(?![\w/.-])", shlex.join(warm.command(tool))) for tool in warm.TOOLS
]
config.substitutions += [
    (
        "%cpu",
        "--iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu "
        "--iree-llvmcpu-target-cpu=generic",
    ),
]
