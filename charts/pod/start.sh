#!/usr/bin/env bash
# Installs what the benchmark needs from hash-locked lists, then runs it. Needs python3 with venv, and an index that pip can reach.
#   HOME_FILES  where this script's companions are (default: its own folder)
#   WORK        where to install and measure (default: /work)
set -euo pipefail

files=${HOME_FILES:-$(cd "$(dirname "$0")" && pwd)}
export WORK=${WORK:-/work}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONDONTWRITEBYTECODE=1

install() {
    echo "installing $1"
    python3 -m venv "$WORK/$1"
    "$WORK/$1/bin/pip" install --quiet --no-cache-dir --no-deps --only-binary :all: --require-hashes --requirement "$files/$1.txt"
}

lanes=$(python3 -c 'import json, os; print(*json.load(open(os.environ["EXPERIMENT"]))["benchmark"]["lanes"])')
install exact
case " $lanes " in
*" llmperf "*)
    install llmperf
    export LLMPERF_PYTHON="$WORK/llmperf/bin/python"
    ;;
esac
exec "$WORK/exact/bin/python" -m specdec.pod
