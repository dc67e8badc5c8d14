"""Measures, and writes what was measured into the docs.

python -m bench pages        (rewrites the tables and plots of README.md and docs/)
"""

from __future__ import annotations

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pages", help="write the measured tables of README.md and docs/")
    parser.parse_args()
    from bench import pages

    pages.write()


if __name__ == "__main__":
    main()
