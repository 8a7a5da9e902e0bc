# SPDX-License-Identifier: Apache-2.0
"""What the operator tells others about itself: logs, metrics, events, and the clock that they share.

A leaf: every other package may import it, it imports none of them. `logging` configures log output, `metrics` holds the
table of all metrics, `events` the table of all event reasons and the recorder, `text` the length limits of Kubernetes.
"""
