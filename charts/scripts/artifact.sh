#!/usr/bin/env bash
# What restore.sh and keep.sh share. The artifact lies in $ARTIFACT_DIR; the file "$ARTIFACT_DIR.whole" says that it is whole.

say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2; }
die() { say "error: $*"; exit 1; }

# present KEY: 0 there, 2 not there, else an error that is shown. Listing answers under a role that may list one prefix only;
# a GET of an absent object would be refused there, and a refusal must not lead to a compile.
present() {
  local found
  found=$(aws s3api list-objects-v2 --bucket "$BUCKET" --prefix "$1" --max-keys 1 --no-paginate --query 'Contents[0].Key' --output text) || return 1
  [ "$found" = "$1" ] || return 2
}

# fetch KEY FILE: as present, and the object is in FILE.
fetch() {
  local status=0
  present "$1" || status=$?
  [ $status = 0 ] || return $status
  aws s3api get-object --bucket "$BUCKET" --key "$1" "$2" >/dev/null || return 1
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
