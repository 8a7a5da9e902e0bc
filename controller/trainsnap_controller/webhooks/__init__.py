# SPDX-License-Identifier: Apache-2.0
"""What the API server asks before it stores an object, and the certificates that let it ask."""
