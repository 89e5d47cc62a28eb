#!/usr/bin/env bash
# Runs beside the server: once it is healthy, uploads what it compiled. The marker is written last and only by the first;
# a server that never became healthy leaves nothing.
set -euo pipefail
# shellcheck source=charts/scripts/artifact.sh
. "$(dirname "$0")/artifact.sh"
work=$(dirname "$ARTIFACT_DIR")

# The first process of a container has no default answer to TERM.
trap 'exit 0' TERM

rest() {
  while :; do sleep 3600 & wait $!; done
}

[ -e "$ARTIFACT_DIR.whole" ] && rest
until curl -fsS -m 5 -o /dev/null "$SERVER/health" 2>/dev/null; do sleep "${PAUSE:-10}"; done
check_library

# Each attempt has its own folder: two servers that compile the same artifact cannot mix their files.
attempt=$POD_UID-$(date -u +%s)
jq -n --arg attempt "$attempt" --argjson configuration "$CONFIGURATION" --slurpfile models "$work/models.json" \
  --argjson files "$(sizes)" '{attempt: $attempt, configuration: $configuration, models: $models[0], files: $files}' >"$work/new.json"
if ! jq -e '.files | length > 0' "$work/new.json" >/dev/null; then
  # Only NxD Inference promises to write here; what has no configuration to compare is a cache that may stay empty.
  [ "$LIBRARY_CONFIGURATION" = '{}' ] || die "the server is healthy and left no artifact in $ARTIFACT_DIR"
  say "the server left nothing in $ARTIFACT_DIR: the next one compiles again"
  touch "$ARTIFACT_DIR.whole"
  rest
fi

status=0
present "$ARTIFACT/$MARKER" || status=$?
case $status in
  0) say "s3://$BUCKET/$ARTIFACT is already there" ;;
  2)
    say "uploading to s3://$BUCKET/$ARTIFACT/$attempt/"
    aws s3 sync "$ARTIFACT_DIR" "s3://$BUCKET/$ARTIFACT/$attempt/" --only-show-errors || die "the artifact could not be uploaded"
    if errors=$(aws s3api put-object --bucket "$BUCKET" --key "$ARTIFACT/$MARKER" --body "$work/new.json" --if-none-match '*' 2>&1 >/dev/null); then
      say "kept"
    else
      case $errors in
        *PreconditionFailed* | *ConditionalRequestConflict*) say "another server was first; s3://$BUCKET/$ARTIFACT/$attempt/ is not used" ;;
        *) die "$errors" ;;
      esac
    fi
    ;;
  *) die "s3://$BUCKET/$ARTIFACT/$MARKER cannot be read" ;;
esac
touch "$ARTIFACT_DIR.whole"
rest
