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
config.excludes = ["Inputs", "known", "models", "Output"]
config.test_source_root = root
config.test_exec_root = os.path.join(root, "build", "lit")
config.environment["PATH"] = os.pathsep.join([tools, os.environ.get("PATH", "")])
config.maxIndividualTestTime = 60

# The path is set for each command: lit's own `diff` and `cat` overwrite it in the test's
# environment, and later commands would run whatever attnpass is installed.
python = shlex.join(["env", f"PYTHONPATH={root}", sys.executable])

# Not within a word, an option or a file's name.
config.substitutions += [
    (r"(?<![\w/.-])attn-opt(?![\w/.-])", f"{python} -m attnpass.cli.attn_opt"),
    (r"(?<![\w/.-])attn-compile(?![\w/.-])", f"{python} -m attnpass.cli.attn_compile"),
    (r"(?<![\w/.-])attn-tune(?![\w/.-])", f"{python} -m attnpass.cli.attn_tune"),
    (r"(?<![\w/.-])attn-verify(?![\w/.-])", f"{python} -m attnpass.cli.attn_verify"),
    (r"\bFileCheck\b", shlex.quote(os.path.join(tools, "filecheck"))),
    (
        "%cpu",
        "--iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu "
        "--iree-llvmcpu-target-cpu=generic",
    ),
]
