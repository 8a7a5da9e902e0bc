# SPDX-License-Identifier: Apache-2.0
"""The reconcile loops: ``trainjob`` (start there) and ``runtimes``.

``sources`` says what wakes them, ``gather`` reads, ``runtime`` decides, ``act`` writes.
"""
