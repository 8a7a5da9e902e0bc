# SPDX-License-Identifier: Apache-2.0
"""The command line. ``main`` is what the installed script calls."""

from trainsnap_controller.cli.main import main

__all__ = ["main"]
