#!/usr/bin/env bash
# Writes compose.env, the secrets of docker-compose.yml, once: what is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-compose.env}
if [ -e "$file" ]; then
  echo "$file is there already"
  exit 0
fi
secret() { python3 -c 'import secrets; print(secrets.token_urlsafe(32))'; }
postgres=$(secret) redis=$(secret) engine=$(secret)
umask 077
cat >"$file" <<END
POSTGRES_USER=afterturn
POSTGRES_DB=afterturn
POSTGRES_PASSWORD=$postgres
REDIS_PASSWORD=$redis
AFTERTURN_DATABASE_URL=postgresql+psycopg://afterturn:$postgres@postgres:5432/afterturn
AFTERTURN_BROKER_URL=redis://:$redis@redis:6379/0
AFTERTURN_ADMIN_KEY=at-$(secret)
AFTERTURN_ENGINE_API_KEY=$engine
VLLM_API_KEY=$engine
END
echo "wrote $file (mode 0600)"
