# lib.sh - what the shell tests of the worker's verbs share; sourced from an own temporary directory.
#
# worker, kiln   the programs of this build; without LibTorch the test is skipped
# expect STATUS NAME COMMAND...   runs it, keeps its output in out and err
# fail           notes a failure; a test ends with [ $bad = 0 ]
set -u
worker=$BUILD/kiln-worker kiln=$BUILD/kiln
case $BUILD in /*) ;; *) worker=$KILN_SOURCE/$worker kiln=$KILN_SOURCE/$kiln ;; esac
[ -e "${LIBTORCH:-}/lib/libtorch_cpu.so" ] || { echo "skip: no LibTorch"; exit 77; }
bad=0
fail() { echo "FAIL: $*"; bad=$((bad + 1)); }
expect() {
    local want=$1 name=$2
    shift 2
    "$@" >out 2>err </dev/null
    local got=$?
    [ $got = "$want" ] || fail "$name: status $got, not $want: $(head -c 300 err)"
    [ "$want" = 0 ] || [ -s err ] || fail "$name: no message"
}
