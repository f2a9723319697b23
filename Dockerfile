# The image of all services, `python -m services.NAME`, and as target `replay` that of Spark jobs.
#
# Layers go from what seldom changes to what often does: locked packages, then this repository.
# What builds (pip, setuptools) stays behind in the first stages.
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS builder
WORKDIR /build
RUN python -m venv --without-pip /opt/tidemark
ENV PIP_PYTHON=/opt/tidemark/bin/python PIP_NO_CACHE_DIR=1 PIP_QUIET=1
COPY image.lock ./
RUN pip install --require-hashes -r image.lock

FROM builder AS code
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq --no-install-recommends \
    gcc libc6-dev >/dev/null
COPY pyproject.toml README.md LICENSE ./
COPY tidemark ./tidemark
# An installation goes on without the native library; an image without it is not built.
RUN pip install --no-deps --no-build-isolation --prefix /opt/code . \
 && ls /opt/code/lib/python3.13/site-packages/tidemark/native/_library*.so

FROM builder AS packages
RUN pip uninstall --yes setuptools \
 && cd /opt/tidemark/lib/python3.13/site-packages \
 && find . -type d -name tests -prune -exec rm -r {} + \
 && rm -r pyarrow/include

FROM ${PYTHON_IMAGE} AS bare
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin tidemark \
 && pip uninstall --quiet --yes --root-user-action ignore pip
# The folder of pipelines is free for a mount, and no module in it hides one of ours.
ENV PATH=/opt/tidemark/bin:$PATH \
    PYTHONPATH=/srv/tidemark:/pipelines \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /pipelines

FROM bare AS service
ENV TIDEMARK_HTTP_HOST=0.0.0.0 TIDEMARK_HTTP_PORT=8080
EXPOSE 8080
CMD ["tidemark", "--help"]
# Python without its site and modules: it runs every few seconds in every container.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["python", "-ISc", "\
import socket; asked = socket.create_connection(('127.0.0.1', 8080), 2); \
asked.sendall(b'GET /health/ready HTTP/1.0\\r\\n\\r\\n'); raise SystemExit(asked.recv(12)[-3:] != b'200')"]
COPY --from=packages /opt/tidemark /opt/tidemark
COPY --from=code /opt/code /opt/tidemark
COPY services /srv/tidemark/services
COPY examples /srv/tidemark/examples
USER tidemark

FROM packages AS replay-packages
COPY replay.lock ./
RUN pip install --require-hashes -r replay.lock && pip uninstall --yes setuptools

FROM bare AS replay
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq --no-install-recommends \
    openjdk-17-jre-headless >/dev/null \
 && rm -rf /var/lib/apt/lists/*
ENV TIDEMARK_CACHE=/opt/cache
ENTRYPOINT ["tidemark"]
COPY --from=replay-packages /opt/tidemark /opt/tidemark
COPY --from=code /opt/code /opt/tidemark
RUN mkdir /opt/cache \
 && python -c "from tidemark.embedded.spark_jars import kafka_source_jars as fetch; fetch()"
COPY services /srv/tidemark/services
COPY examples /srv/tidemark/examples
USER tidemark
