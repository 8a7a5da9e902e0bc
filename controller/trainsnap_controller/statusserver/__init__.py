# SPDX-License-Identifier: Apache-2.0
"""The status server: trainer pods report their progress to it, behind the feature gate ``TrainJobStatus``.

Put together by ``operator``. ``app`` answers requests, ``authorizer`` decides who may report for which job by the keys
that ``issuer`` reads, ``jwt`` checks one token and ``report`` one body; the last two know no network.
"""
