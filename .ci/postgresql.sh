#!/usr/bin/env bash
# A throw-away PostgreSQL on loopback: `postgresql.sh start DIR PORT` prints its URL, `stop DIR` ends it.
set -euo pipefail
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
case $1 in
start)
  dir=$2 port=$3
  mkdir -p "$dir"
  [ "$(id -u)" != 0 ] || chown postgres "$dir"
  as_postgres "$bin/initdb" -D "$dir/data" -A trust -U afterturn -E UTF8 --no-sync >"$dir.log" 2>&1
  as_postgres "$bin/pg_ctl" -D "$dir/data" -w -l "$dir/server.log" \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$dir" start >>"$dir.log" 2>&1
  as_postgres "$bin/createdb" -h 127.0.0.1 -p "$port" -U afterturn afterturn
  echo "postgresql+psycopg://afterturn@127.0.0.1:$port/afterturn"
  ;;
stop)
  as_postgres "$bin/pg_ctl" -D "$2/data" -m immediate -w stop >/dev/null
  ;;
*)
  echo "usage: postgresql.sh start DIR PORT | stop DIR" >&2
  exit 2
  ;;
esac
