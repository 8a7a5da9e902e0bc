# SPDX-License-Identifier: Apache-2.0
"""Checks of objects before they are sent."""

from __future__ import annotations
