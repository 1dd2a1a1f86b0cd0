"""The `ce` command: runs the demo, shows sessions and reports, checks the installation."""

from __future__ import annotations


def main() -> None:
    """Run the `ce` command with the arguments of the process."""
    from ce_engine.apps.cli.app import run  # noqa: PLC0415 - demos import this package for its types only

    run()
