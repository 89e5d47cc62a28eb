#!/usr/bin/env bash
# Runs before the server: waits for the models, then restores the compiled artifact if the bucket has it whole.
set -euo pipefail
# shellcheck source=charts/scripts/artifact.sh
. "$(dirname "$0")/artifact.sh"
work=$(dirname "$ARTIFACT_DIR")

# A restarted pod finds nothing half-done: what is not marked whole goes.
rm -rf -- "$ARTIFACT_DIR" "$ARTIFACT_DIR.whole"

commits='{}'
for key in $MODEL_MARKERS; do
  deadline=$((SECONDS + STAGING_SECONDS))
  until fetch "$key" "$work/model.json"; do
    [ $SECONDS -lt $deadline ] || die "s3://$BUCKET/$key did not appear: see the logs of the staging Jobs"
    say "waiting for s3://$BUCKET/$key"
    sleep "${PAUSE:-30}"
  done
  commits=$(jq -c --argjson all "$commits" '$all + {(.model): .commit}' "$work/model.json")
done
printf '%s' "$commits" >"$work/models.json"

status=0
fetch "$ARTIFACT/$MARKER" "$work/marker.json" || status=$?
case $status in
  0) ;;
  2) say "no artifact at s3://$BUCKET/$ARTIFACT: the server compiles it"; exit 0 ;;
  *) die "s3://$BUCKET/$ARTIFACT/$MARKER cannot be read" ;;
esac

jq -e --argjson asked "$CONFIGURATION" '.configuration == $asked' "$work/marker.json" >/dev/null ||
  die "the marker of s3://$BUCKET/$ARTIFACT names another configuration. Delete s3://$BUCKET/$ARTIFACT/ and restart"
jq -e --argjson now "$commits" '.models == $now' "$work/marker.json" >/dev/null ||
  die "s3://$BUCKET/$ARTIFACT was compiled from other weights. Delete s3://$BUCKET/$ARTIFACT/ and restart"

attempt=$(jq -er .attempt "$work/marker.json")
say "restoring s3://$BUCKET/$ARTIFACT/$attempt/"
mkdir -p "$ARTIFACT_DIR"
aws s3 sync "s3://$BUCKET/$ARTIFACT/$attempt/" "$ARTIFACT_DIR" --only-show-errors || die "the artifact could not be fetched"
[ "$(sizes | jq -S -c .)" = "$(jq -S -c .files "$work/marker.json")" ] || die "the artifact's files differ from its marker"
check_library
touch "$ARTIFACT_DIR.whole"
say "restored"
