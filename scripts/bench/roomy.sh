#!/bin/sh
# roomy.sh GB DIR... - prints the first folder with that much free space, or the last one if none has it.
gigabytes=${1:?usage: scripts/bench/roomy.sh GB DIR...}
shift
for dir in "$@"; do
    free=$(df -Pk "$dir" 2>/dev/null | awk 'NR == 2 {printf "%d", $4 * 1024 / 1e9}')
    [ "${free:--1}" -lt "$gigabytes" ] || break
done
echo "$dir"
