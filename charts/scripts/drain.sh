#!/usr/bin/env bash
# Before the server is told to stop: lets the endpoint leave the Service, then waits for the requests in flight.
set -uo pipefail
sleep "${PAUSE:-5}"
end=$((SECONDS + 110))
while [ $SECONDS -lt $end ]; do
  running=$(curl -fsS -m 5 http://127.0.0.1:8000/metrics | awk '/^vllm:num_requests_(running|waiting)[{ ]/ { n += $NF } END { print n + 0 }') || exit 0
  [ "$running" = 0 ] && exit 0
  sleep 1
done
