#!/usr/bin/env bash
# What restore.sh and keep.sh share. The artifact lies in $ARTIFACT_DIR; the file "$ARTIFACT_DIR.whole" says that it is whole.

say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# fetch KEY FILE: 0 fetched, 2 no such object, else an error that is shown. Only a plain "not there" may lead to a compile.
fetch() {
  local errors
  if errors=$(aws s3api get-object --bucket "$BUCKET" --key "$1" "$2" 2>&1 >/dev/null); then return 0; fi
  case $errors in *NoSuchKey* | *'Not Found'*) return 2 ;; esac
  say "$errors"
  return 1
}

# check_library: compares neuron_config.json, which the serving library wrote, with what this variant asks for.
check_library() {
  local file=$ARTIFACT_DIR/neuron_config.json wrong
  [ "$LIBRARY_CONFIGURATION" = '{}' ] && return 0
  [ -s "$file" ] || die "$file is missing: the compiled artifact is not whole"
  wrong=$(jq -r --argjson asked "$LIBRARY_CONFIGURATION" '
    . as $all | $asked | to_entries[]
    | .key as $field | .value as $want | ($all | getpath($field | ltrimstr(".") | split("."))) as $have
    | select($have != $want) | "\($field) is \($have | tojson), asked \($want | tojson)"' "$file") || die "$file cannot be read"
  [ -z "$wrong" ] || die "the artifact was compiled for something else: $wrong. Delete s3://$BUCKET/$ARTIFACT/ and restart"
}

# sizes: {path: bytes} of everything in the artifact.
sizes() {
  (cd "$ARTIFACT_DIR" && find . -type f -printf '%s %P\n') | jq -Rn '[inputs | capture("^(?<n>[0-9]+) (?<p>.*)$")] | map({key: .p, value: (.n | tonumber)}) | from_entries'
}
