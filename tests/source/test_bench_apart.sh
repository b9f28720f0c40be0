#!/bin/bash
# Benches, the judge and the simulation are in kiln-bench and libkiln_bench.so only: what a fleet
# runs does not contain them, and libdiffusionz.so exports nothing but its C ABI.
set -u
cd "${KILN_SOURCE:?}" || exit 1
bad=0
fail() { echo "FAIL: $*"; bad=$((bad + 1)); }
apart='kiln_(bench|judge|stages|sim|trace|quality)_'

for program in kiln kiln-scheduler kiln-worker libdiffusionz.so; do
    [ -e "${BUILD:?}/$program" ] || { echo "skip: $program is not built"; exit 77; }
    found=$(nm --defined-only "$BUILD/$program" | grep -E " [tTdDbBrR] $apart" | head -n 3)
    [ -z "$found" ] || fail "$program contains $found"
done
nm --defined-only "$BUILD/kiln-bench" | grep -qE " [tT] $apart" || fail "kiln-bench contains no bench"
[ "$(nm -D --defined-only "$BUILD/libkiln_bench.so" | awk '{ print $3 }')" = kiln_bench_model ] ||
    fail "libkiln_bench.so does not export its one entry alone"
others=$(nm -D --defined-only "$BUILD/libdiffusionz.so" | awk '$3 !~ /^diffusionz_/ { print $3 }')
[ -z "$others" ] || fail "libdiffusionz.so exports $others"

[ $bad = 0 ] || exit 1
echo "kiln, kiln-scheduler, kiln-worker and libdiffusionz.so contain no bench"
