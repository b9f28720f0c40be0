#!/bin/bash
# run.sh FILTER TEST... - runs each test in its own process and temporary directory with a time
# limit, shows the output of those that fail, and ends with "N passed, N failed, N skipped" counted
# in single tests where a program reports them (cmocka).  A script that exits 77 was skipped, and so was
# the part of a test that says "skip: why" and goes on; the reason is shown.
set -u
filter=$1
shift
export BUILD=${BUILD:-build}
KILN_SOURCE=$(pwd)
export KILN_SOURCE
# A shim before the interpreter (pyenv's) takes longer than most of what the tests ask of it.
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && PATH=$(dirname "$python"):$PATH
limit=${TEST_TIMEOUT:-600}
passed=0 failed=0 skipped=0
broken=()
for test in "$@"; do
    case $test in *"$filter"*) ;; *) continue ;; esac
    dir=$(mktemp -d "${TMPDIR:-/tmp}/kiln-test.XXXXXX")
    case $test in /*) path=$test ;; *) path=$PWD/$test ;; esac
    start=$(date +%s.%N)
    (cd "$dir" && TMPDIR=$dir timeout -k 10 "$limit" "$path") >"$dir.log" 2>&1 </dev/null
    status=$?
    seconds=$(echo "$(date +%s.%N) - $start" | bc 2>/dev/null || echo '?')
    ok=$(grep -c '^\[       OK \]' "$dir.log")
    bad=$(grep -c '^\[  FAILED  \] [a-z_0-9]*$' "$dir.log")
    skip=$(grep -c '^\[  SKIPPED \]' "$dir.log")
    parts=$(grep -c '^skip: ' "$dir.log") # a program may also report them
    if [ $status = 77 ]; then
        skipped=$((skipped + 1))
        printf 'skip %-60s %s\n' "$test" "$(tail -n 1 "$dir.log")"
    elif [ $status = 0 ]; then
        passed=$((passed + (ok > 0 ? ok : 1)))
        skipped=$((skipped + (skip > parts ? skip : parts)))
        printf 'ok   %-60s %3d tests %6.1f s\n' "$test" "$((ok > 0 ? ok : 1))" "$seconds"
        grep '^skip: ' "$dir.log" | sed 's/^/    /'
    else
        passed=$((passed + ok))
        failed=$((failed + (bad > 0 ? bad : 1)))
        broken+=("$test")
        printf 'FAIL %-60s status %d\n' "$test" "$status"
        tail -n 80 "$dir.log" | sed 's/^/    /'
    fi
    rm -rf "$dir" "$dir.log"
done
[ ${#broken[@]} = 0 ] || printf 'failed: %s\n' "${broken[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
