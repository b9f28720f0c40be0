#!/bin/bash
# That `make gpu-test` runs every program, says which failed, and takes no GPU for a success; that the
# run on another machine knows its steps, and where there is room.
set -u
bad=0
fail() { echo "FAIL: $*"; bad=$((bad + 1)); }

# program NAME BODY: a program of tests/gpu that does that.
program() {
    printf '#!/bin/bash\necho "%s $*" >>ran\n%s\n' "$1" "$2" >"$1"
    chmod +x "$1"
}

# ends STATUS PROGRAM...: run.sh ends with that; its output is in `out`.
ends() {
    local want=$1 got=0
    shift
    rm -f ran
    PATH=$PWD/tools:$PATH "$KILN_SOURCE/tests/gpu/run.sh" "$@" >out 2>&1 || got=$?
    [ $got = "$want" ] || fail "status $got, not $want: $(cat out)"
}

mkdir tools
program tools/compute-sanitizer 'exec "${!#}"'
program good 'exit 0'
program bad 'exit 3'
program none 'echo "these tests need a GPU" >&2; exit 69'
program test_lora_cuda '[ "${1:-}" != full ] || exit 4'
program test_kernels 'exit 0'

ends 0 ./good ./good
grep -q '^2 passed, 0 failed$' out || fail "$(cat out)"
ends 69 ./none ./good
[ "$(cat ran)" = "none " ] || fail "without a GPU there ran: $(cat ran)"
ends 1 ./bad ./none ./good
[ "$(wc -l <ran)" = 3 ] || fail "after a failure there ran: $(cat ran)"
grep -q '^FAIL bad (status 3)$' out && grep -q '^FAIL none (status 69)$' out || fail "$(cat out)"
ends 1 ./test_lora_cuda ./test_kernels
grep -q '^FAIL test_lora_cuda full (status 4)$' out || fail "$(cat out)"
grep -q '^4 passed, 1 failed$' out || fail "LoRAs, kernels, and these under two tools: $(cat out)"
grep -q 'tools/compute-sanitizer --tool racecheck .*test_kernels' ran || fail "$(cat ran)"
KILN_LORA_FULL=0 ends 0 ./test_lora_cuda
program tools/compute-sanitizer 'echo "Error: Device not supported"; exit 9'
ends 0 ./test_kernels
grep -q '^skip: compute-sanitizer does not work' out || fail "$(cat out)"

status=0
STEPS="bench nonsense" sh "$KILN_SOURCE/scripts/gpu_run.sh" >out 2>&1 || status=$?
[ $status = 64 ] && grep -q 'no step nonsense' out || fail "a step that is not there: $status, $(cat out)"
mkdir room
roomy() { "$KILN_SOURCE/scripts/bench/roomy.sh" "$@"; }
[ "$(roomy 0 room tools)" = room ] || fail "room for nothing: $(roomy 0 room tools)"
[ "$(roomy 0 nowhere room)" = room ] || fail "no folder has no room: $(roomy 0 nowhere room)"
[ "$(roomy 99999999 room tools)" = tools ] || fail "no room: $(roomy 99999999 room tools)"

[ $bad = 0 ] || exit 1
echo "every program is run, and what failed is said"
