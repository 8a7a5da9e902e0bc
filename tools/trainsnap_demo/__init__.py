# SPDX-License-Identifier: Apache-2.0
"""The demo: the main job, step by step, with every claim checked. Run by `make demo` through tools/demo.py."""
