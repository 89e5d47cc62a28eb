#!/usr/bin/env bash
# Starts the server: from the restored artifact if it is whole, else from nothing, so that a broken compile is never reused.
set -euo pipefail

if [ -e "$ARTIFACT_DIR.whole" ]; then
  # A loader that dislikes the artifact would compile another over it, from arguments that are not the whole configuration.
  [ -z "$ARTIFACT_FROZEN" ] || chmod -R a-w "$ARTIFACT_DIR"
  mapfile -t arguments < <(printf '%s' "$WARM_ARGUMENTS" | jq -r '.[]')
  [ ${#arguments[@]} -gt 0 ] || { echo "error: WARM_ARGUMENTS cannot be read" >&2; exit 1; }
  exec vllm serve "${arguments[@]}"
fi
rm -rf -- "$ARTIFACT_DIR"
mkdir -p "$ARTIFACT_DIR"
exec "$@"
