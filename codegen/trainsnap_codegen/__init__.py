# SPDX-License-Identifier: Apache-2.0
"""Makes the CRDs, the Python models and the merge keys out of the schema sources beside this file.

Called as ``python -m trainsnap_codegen gen|check|pin`` by the Makefile. Nothing of it is
installed or runs in a cluster.

``sources/`` holds our own schemas and the tables of deviations and names; ``pinned/`` holds what is taken from the Go
modules of JobSet and Kubernetes, as facts only (no description texts), so that generating needs no Go.
"""

from __future__ import annotations
