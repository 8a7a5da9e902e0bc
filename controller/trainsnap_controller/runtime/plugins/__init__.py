# SPDX-License-Identifier: Apache-2.0
"""One module per plugin. They know the extension points and the helpers of ``runtime``, never each other."""
