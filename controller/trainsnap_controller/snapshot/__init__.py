# SPDX-License-Identifier: Apache-2.0
"""The TrainingRuntimeSnapshot of a job: what it says, whose it is, and how it comes to be.

``document`` and ``digest`` are pure; ``capture`` is the only part that talks to the API server.
"""
