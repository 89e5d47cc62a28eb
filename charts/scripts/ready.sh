#!/usr/bin/env bash
# Ready means: the engine answers, and it serves the model that the experiment names.
set -euo pipefail
server=http://127.0.0.1:8000
curl -fsS -m 5 -o /dev/null "$server/health"
curl -fsS -m 5 "$server/v1/models" | jq -e --arg model "$SERVED_MODEL" 'any(.data[]; .id == $model)' >/dev/null
