# The worker and the simulated range store in one image:
#
#   docker build -t tidegate .
#   docker run -e TIDEGATE_BOOTSTRAP_SERVERS=kafka:9092 -v tidegate:/var/lib/tidegate tidegate
#
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/tidegate
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY tidegate tidegate
# As variables the constraints hold for the build backend too, in every release of pip.
RUN PIP_CONSTRAINT=/src/constraints.txt PIP_BUILD_CONSTRAINT=/src/constraints.txt \
    /opt/tidegate/bin/pip install --no-cache-dir --disable-pip-version-check '.[worker]'

FROM python:3.11-slim
# A fixed uid, so that the owner of a mounted volume can be set beforehand.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/tidegate tidegate
COPY --from=build /opt/tidegate /opt/tidegate
# The service tree is run from its directory, not installed: its package names are too common for that.
WORKDIR /srv/tidegate
COPY app app
COPY agents agents
COPY tables tables
COPY schemas schemas
COPY sim sim
ENV PATH=/opt/tidegate/bin:$PATH \
    PYTHONPATH=/srv/tidegate \
    PYTHONUNBUFFERED=1 \
    TIDEGATE_DATA_DIR=/var/lib/tidegate
USER tidegate
VOLUME /var/lib/tidegate
CMD ["tidegate", "worker"]
