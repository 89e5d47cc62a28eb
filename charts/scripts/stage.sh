#!/usr/bin/env bash
# Brings one model from Hugging Face into the bucket: each file is downloaded, checked against the digest that the hub
# publishes, and uploaded with it; the marker comes last. Run again, it goes on where it stopped.
set -euo pipefail
hub=${HUB:-https://huggingface.co}
scratch=${SCRATCH:-/scratch}

say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# head_object KEY: the object's description, or nothing if there is none; any refusal ends the Job. Whether it is there is asked
# by listing: under a role that may list one prefix only, a HEAD of an absent object is refused.
head_object() {
  local found
  found=$(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$1" --max-keys 1 --no-paginate --query 'Contents[0].Key' --output text) ||
    die "s3://$BUCKET cannot be listed"
  [ "$found" = "$1" ] || return 0
  aws s3api head-object --bucket "$BUCKET" --key "$1" || die "s3://$BUCKET/$1 cannot be read"
}

download() { curl -fsSL --retry 5 --retry-delay 2 -H "@$scratch/headers" "$@"; }

# next_page HEADERS: the address of the page that follows, or nothing. Asked of our hub, whatever host the answer names, since
# the token is for no other.
next_page() {
  local link
  link=$(tr -d '\r' <"$1" | sed -nE 's/^[Ll][Ii][Nn][Kk]:.*<([^>]*)>; *rel="?next"?.*/\1/p' | tail -n 1)
  case $link in
    "" | "$hub"/*) ;;
    http://*/* | https://*/*) link=$hub/${link#*//*/} ;;
    *) link=$hub/${link#/} ;;
  esac
  printf '%s' "$link"
}

# digest FILE KIND: large files are named by the sha256 of their content, the others by their git blob id.
digest() {
  if [ "$2" = sha256 ]; then sha256sum "$1"; else { printf 'blob %s\0' "$(stat -c %s "$1")"; cat "$1"; } | sha1sum; fi | cut -d' ' -f1
}

present=$(head_object "$PREFIX$MODEL_MARKER")
[ -z "$present" ] || { say "s3://$BUCKET/$PREFIX is complete"; exit 0; }

(umask 077 && : >"$scratch/headers")
if [ -n "$HF_TOKEN_SECRET" ]; then
  token=$(aws secretsmanager get-secret-value --secret-id "$HF_TOKEN_SECRET" --query SecretString --output text) ||
    die "the secret $HF_TOKEN_SECRET cannot be read"
  printf 'Authorization: Bearer %s\n' "$token" >"$scratch/headers"
fi

commit=$(download "$hub/api/models/$MODEL/revision/$REVISION" | jq -er .sha) || die "$MODEL has no revision $REVISION, or needs a token"
: >"$scratch/tree.json"
page="$hub/api/models/$MODEL/tree/$commit?recursive=true" pages=0
while [ -n "$page" ]; do
  [ $((pages += 1)) -le 1000 ] || die "the list of files of $MODEL has no end"
  download -D "$scratch/page" "$page" >>"$scratch/tree.json" || die "the files of $MODEL cannot be listed"
  page=$(next_page "$scratch/page")
done
# Weights in other formats and the documentation are of no use to the server.
jq -es 'add | [.[] | select(.type == "file") | select(.path | test("(^|/)\\.git|\\.(md|gguf|pth|pt|h5|msgpack|onnx)$|^(original|metal|onnx)/") | not)
  | {path, size, digest: (if .lfs then "sha256:" + .lfs.oid else "git:" + .oid end)}] | if length > 0 then . else error("empty") end' \
  "$scratch/tree.json" >"$scratch/files.json" || die "$MODEL lists no files at $commit"
say "$MODEL at $commit: $(jq length "$scratch/files.json") files, $(jq 'map(.size) | add' "$scratch/files.json") bytes"

while IFS=$'\t' read -r path size want; do
  have=$(head_object "$PREFIX$path")
  if [ -n "$have" ] && jq -e --argjson size "$size" --arg want "$want" '.ContentLength == $size and .Metadata.digest == $want' <<<"$have" >/dev/null; then
    continue
  fi
  say "$path ($size bytes)"
  download -o "$scratch/part" "$hub/$MODEL/resolve/$commit/$path" || die "$path could not be downloaded; is the disk full?"
  [ "${want%%:*}:$(digest "$scratch/part" "${want%%:*}")" = "$want" ] || die "$path arrived damaged: its digest is not $want"
  aws s3 cp "$scratch/part" "s3://$BUCKET/$PREFIX$path" --metadata "digest=$want" --only-show-errors || die "$path could not be uploaded"
  rm -f "$scratch/part"
done < <(jq -r '.[] | [.path, .size, .digest] | @tsv' "$scratch/files.json")

jq --arg model "$MODEL" --arg revision "$REVISION" --arg commit "$commit" \
  '{model: $model, revision: $revision, commit: $commit, files: .}' "$scratch/files.json" >"$scratch/marker.json"
aws s3 cp "$scratch/marker.json" "s3://$BUCKET/$PREFIX$MODEL_MARKER" --only-show-errors || die "the marker could not be written"
say "complete"
