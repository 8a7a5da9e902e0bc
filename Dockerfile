# SPDX-License-Identifier: Apache-2.0
# The operator's image: one wheel on a slim Python, no compiler, no shell needed, not root.
# syntax=docker/dockerfile:1
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY api api
COPY controller controller
COPY crds crds
COPY deploy deploy
RUN python -m venv /opt/trainsnap \
 && /opt/trainsnap/bin/pip install --no-cache-dir --constraint constraints.txt ".[controller,tracing]"

FROM python:${PYTHON}-slim
COPY --from=build /opt/trainsnap /opt/trainsnap
ENV PATH=/opt/trainsnap/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["trainsnap"]
CMD ["run"]
