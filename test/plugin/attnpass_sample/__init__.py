"""A package that adds a machine, a kernel, a rule and a pass to attnpass."""
