# The worker and the simulated range store in one image:
#
#   docker build -t tidegate .
#   docker run -e TIDEGATE_BOOTSTRAP_SERVERS=kafka:9092 -v tidegate:/var/lib/tidegate tidegate
#
# The base image is named by a tag, which its owner can move. To build on one that nobody can move:
#
#   docker build -t tidegate --build-arg PYTHON_IMAGE=python@sha256:... .
#
ARG PYTHON_IMAGE=python:3.11-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# Two environments, so that the build backends stay out of the image. Faust has no wheel for Linux on aarch64.
RUN python -m venv /opt/tidegate && python -m venv /opt/build
COPY requirements requirements
RUN /opt/build/bin/pip install --require-hashes --only-binary :all: -r requirements/build.txt
RUN SOURCES_OF=$(test "$(uname -m)" = aarch64 && echo faust-streaming || echo :none:); \
    /opt/build/bin/pip wheel --require-hashes --only-binary :all: --no-binary "$SOURCES_OF" \
        --no-deps --no-build-isolation --wheel-dir /dist -r requirements/worker.txt
COPY pyproject.toml README.md LICENSE ./
COPY tidegate tidegate
COPY app app
COPY agents agents
COPY tables tables
COPY schemas schemas
COPY pipeline pipeline
COPY sim sim
COPY stack stack
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . && \
    /opt/tidegate/bin/pip install --no-deps --no-index /dist/*.whl

FROM ${PYTHON_IMAGE}
# A fixed uid, so that the owner of a mounted volume can be set beforehand.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/tidegate tidegate
COPY --from=build /opt/tidegate /opt/tidegate
WORKDIR /var/lib/tidegate
ENV PATH=/opt/tidegate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TIDEGATE_DATA_DIR=/var/lib/tidegate
USER tidegate
VOLUME /var/lib/tidegate
CMD ["tidegate", "worker"]
