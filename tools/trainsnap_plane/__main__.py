# SPDX-License-Identifier: Apache-2.0
"""Entry point of `python -m trainsnap_plane`; `tools/plane` calls it with the project's own interpreter."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
