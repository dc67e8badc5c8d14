"""What Python's tests share: compiles by commands that are loaded once, and hypothesis profiles:
the same few examples each time, or, with ATTNPASS_EXAMPLES=<count> in the environment, that many
random ones per property."""

from __future__ import annotations

import os

import warm
from hypothesis import HealthCheck, settings

from attnpass.driver import tools

slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=slow)
settings.load_profile("same")

if "ATTNPASS_EXAMPLES" in os.environ:
    settings.register_profile(
        "more",
        max_examples=int(os.environ["ATTNPASS_EXAMPLES"]),
        deadline=None,
        suppress_health_check=slow,
    )
    settings.load_profile("more")

# `attnpass.compile_str` and what else runs attn-compile as a command.
tools.attn_compile_command = lambda *arguments: [*warm.command("attn-compile"), *arguments]
