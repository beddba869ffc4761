#!/usr/bin/env bash
# Base images for podman on a machine that reaches Debian's mirror and no image registry: Debian itself, and
# stand-ins for the official PostgreSQL and Redis images, made of Debian's packages and under their names.
#   base-images.sh [MIRROR]
set -euo pipefail
mirror=${1:-$(awk '/^(URIs:|deb )/ { print $2; exit }' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null)}
debian=docker.io/library/debian:bookworm-slim
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! podman image exists "$debian"; then
  debootstrap --variant=minbase bookworm "$work/debian" "$mirror" >"$work/debootstrap.log" ||
    { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
  rm -rf "$work"/debian/var/cache/apt/archives/*.deb "$work"/debian/var/lib/apt/lists/*
  tar -C "$work/debian" -c . | podman import --change 'CMD ["bash"]' - "$debian"
fi

build() { buildah bud --isolation chroot --network host -q -t "$1" "$work/$2"; }

if ! podman image exists docker.io/library/redis:7-bookworm; then
  mkdir "$work/redis"
  cat >"$work/redis/Dockerfile" <<END
FROM $debian
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/*
WORKDIR /data
CMD ["redis-server"]
END
  build docker.io/library/redis:7-bookworm redis
fi

if ! podman image exists docker.io/library/postgres:15-bookworm; then
  mkdir "$work/postgres"
  cat >"$work/postgres/entrypoint.sh" <<'END'
#!/bin/sh
# The part of the official image's start that docker-compose.yml relies on.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
  initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256 -E UTF8
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  [ "$POSTGRES_DB" = postgres ] || echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres
fi
exec postgres -D "$PGDATA" -c listen_addresses='*'
END
  cat >"$work/postgres/Dockerfile" <<END
FROM $debian
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-15 && rm -rf /var/lib/apt/lists/*
ENV PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data
RUN mkdir -p /var/lib/postgresql/data && chown postgres:postgres /var/lib/postgresql/data && chmod 700 /var/lib/postgresql/data
COPY --chmod=755 entrypoint.sh /entrypoint.sh
USER postgres
STOPSIGNAL SIGINT
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["/entrypoint.sh"]
END
  build docker.io/library/postgres:15-bookworm postgres
fi
