# The operator's image: Python, the locked libraries, the package. No compiler, no pip, no root.
#
#   docker build --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t manta/operator .
#
# The same sources give the same files: libraries by hash, times and bytecode by SOURCE_DATE_EPOCH.
# `tests/unit/image` reads this file and runs its steps without Docker.
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG SOURCE_DATE_EPOCH=315532800
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
COPY requirements-build.lock requirements-image.lock ./
RUN python -m venv /build && \
    /build/bin/pip install --no-deps --require-hashes --only-binary :all: -r requirements-build.lock
RUN python -m venv --without-pip /opt/manta && \
    /build/bin/pip --python /opt/manta/bin/python install --no-compile --no-deps --require-hashes --only-binary :all: -r requirements-image.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
COPY examples ./examples
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . && \
    /build/bin/pip --python /opt/manta/bin/python install --no-compile --no-deps --no-index /dist/*.whl
RUN /opt/manta/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/manta/lib && \
    find /opt/manta -exec touch --no-dereference --date=@${SOURCE_DATE_EPOCH} {} +

FROM ${PYTHON_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="manta" \
      org.opencontainers.image.description="A Kubernetes operator for Ray" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/* /usr/local/lib/python3*/ensurepip /root/.cache
COPY --from=build /opt/manta /opt/manta
ENV PATH=/opt/manta/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080 8082
ENTRYPOINT ["manta"]
CMD ["operator"]
