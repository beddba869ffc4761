#!/bin/bash
# Install the client programs that `make clients` runs, each in a folder of its own under ROOT, outside git.
#   bench/clients/setup.sh ROOT [CLIENT…]
# What is there already is left alone. Versions are those that the scripts here were written against.
set -u
ROOT=${1:?folder for the clients}
shift
CLIENTS=(${@:-sdk aider mini nanobot hermes node pi codex claude opencode openclaw})
PYTHON=${PYTHON:-python3}
mkdir -p "$ROOT"

python_client() {
  local folder=$ROOT/$1
  shift
  [ -x "$folder/bin/python" ] || "$PYTHON" -m venv "$folder" || return
  "$folder/bin/python" -m pip install -q --disable-pip-version-check --prefer-binary "$@"
}

npm_client() {
  local folder=$ROOT/$1
  shift
  mkdir -p "$folder"
  # Some want a newer Node than the machine's: it is installed first.
  PATH=$ROOT/node/node_modules/.bin:$PATH npm install --prefix "$folder" --no-audit --no-fund --no-update-notifier --loglevel=error "$@"
}

failed=()
for client in "${CLIENTS[@]}"; do
  [ -e "$ROOT/.$client" ] && continue
  case $client in
    sdk) python_client sdk openai-agents==0.24.0 langchain==1.5.2 langchain-openai==1.7.4 'smolagents[openai]==1.26.0' ;;
    aider) python_client aider aider-chat==0.86.2 ;;
    mini) python_client mini mini-swe-agent==2.4.6 ;;
    nanobot) python_client nanobot nanobot-ai==0.3.5 ;;
    hermes) python_client hermes hermes-agent==0.19.0 ;;
    node) npm_client node node@24 ;;
    pi) npm_client pi @mariozechner/pi-coding-agent@0.73.1 ;;
    codex) npm_client codex @openai/codex@0.171.0 ;;
    claude) npm_client claude @anthropic-ai/claude-code@2.1.197 ;;
    opencode) npm_client opencode opencode-ai@1.18.33 ;;
    openclaw) npm_client openclaw openclaw@2026.9.6 ;;
    *) echo "unknown client: $client" >&2; exit 2 ;;
  esac && touch "$ROOT/.$client" || failed+=("$client")
done
[ ${#failed[@]} -eq 0 ] || { echo "could not install: ${failed[*]}" >&2; exit 1; }
