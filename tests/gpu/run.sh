#!/bin/bash
# run.sh PROGRAM... - `make gpu-test`: every program, whatever becomes of the one before; behind their
# own programs LoRAs at full size, and the kernels under compute-sanitizer where that is.
# Says at the end what failed; exit 0: nothing did, 1: something, 69: there is no usable GPU.
# KILN_LORA_FULL=0 leaves the full-size model out (25 GB, a minute); GPU_TEST_S are seconds for one
# program.
set -u
[ $# -gt 0 ] || { echo "usage: tests/gpu/run.sh PROGRAM..." >&2; exit 64; }
passed=0 failed=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# prove NAME COMMAND...: runs it and remembers how it ended; its output is shown and kept.
prove() {
    local name=$1
    shift
    echo "== $name"
    timeout -k 10 "${GPU_TEST_S:-900}" "$@" 2>&1 | tee "$log"
    local status=${PIPESTATUS[0]}
    [ "$status" != 69 ] || [ $((passed + ${#failed[@]})) != 0 ] || exit 69
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
    elif [ "$name" != "${name#* under }" ] && grep -q 'Device not supported' "$log"; then
        echo "skip: compute-sanitizer does not work on this machine's GPU"
    else
        failed+=("$name (status $status)")
    fi
}

# Out-of-bounds accesses and races of the kernels.
sanitize() {
    local tool sanitizer
    sanitizer=$("$(dirname "${BASH_SOURCE[0]}")/../../scripts/find_sanitizer.sh")
    [ -n "$sanitizer" ] || { echo "skip: there is no compute-sanitizer on this machine"; return; }
    for tool in memcheck racecheck; do
        prove "test_kernels under $tool" "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 "$1"
    done
}

for program in "$@"; do
    name=$(basename "$program")
    prove "$name" "$program"
    case $name in
    test_lora_cuda) [ "${KILN_LORA_FULL:-1}" = 0 ] || prove "$name full" "$program" full ;;
    test_kernels) sanitize "$program" ;;
    esac
done
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ] || { printf 'FAIL %s\n' "${failed[@]}"; exit 1; }
