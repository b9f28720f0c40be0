#!/bin/bash
# What is said when cuda:N is asked for and libkiln_cuda.so is missing, of another Kiln, of another
# LibTorch, finds no GPU that it can use, or one that cannot be started.  The real one is not needed: a
# few lines of C stand in.
set -u
case $BUILD in /*) build=$BUILD ;; *) build=$KILN_SOURCE/$BUILD ;; esac
[ -e "${LIBTORCH:-}/lib/libtorch_cpu.so" ] || { echo "skip: no LibTorch"; exit 77; }
bad=0
fail() { echo "FAIL: $*"; bad=$((bad + 1)); }
cp "$build/kiln-worker" "$build/libdiffusionz.so" . || exit 1
symbol=$(sed -n 's/.*dlsym(library, "\(kiln_cuda_plugin_[0-9]*\)").*/\1/p' "$KILN_SOURCE/pipeline/torch/device.cpp")
[ -n "$symbol" ] || fail "the name of the table was not found"

# says PATTERN NAME [STATUS]: the worker ends with 69, or STATUS, and one line that matches.
says() {
    LD_LIBRARY_PATH=$PWD ./kiln-worker render --model "$KILN_SOURCE/pipeline/models/sketch" \
        --prompt x --size 512x512 --device cuda:0 --out x.webp >out 2>err </dev/null
    local got=$?
    [ $got = "${3:-69}" ] || fail "$2: status $got, not ${3:-69}: $(head -c 300 err)"
    [ "$(wc -l <err)" = 1 ] || fail "$2: $(wc -l <err) lines: $(head -c 300 err)"
    grep -q "device cuda:0: .*$1" err || fail "$2: $(head -c 300 err)"
    [ ! -e x.webp ] || fail "$2: there is a picture"
}

# plugin SYMBOL VERSION REASON [DEVICES]: a library with that table, whose devices cannot be used: 0 of
# them for that reason, or so many that do not start.
plugin() {
    cat >plugin.c <<C
#include <stdbool.h>
#include <stdio.h>
static int count(char *reason, size_t size) { snprintf(reason, size, "%s", "$3"); return ${4:-0}; }
static bool start(int device, char *reason, size_t size)
{
    snprintf(reason, size, "%s", "$3");
    return false;
}
static void trim(void) {}
const struct {
    const char *version;
    int (*count)(char *, size_t);
    bool (*start)(int device, char *reason, size_t size);
    void *memory;
    void (*trim)(void);
    void *rest[32];
} $1 = {.version = "$2", .count = count, .start = start, .trim = trim};
C
    ${CC:-cc} -shared -fPIC -o libkiln_cuda.so plugin.c || exit 1
}

says 'libkiln_cuda.so .*cannot be loaded' "no library"
echo "no library" >libkiln_cuda.so
says 'libkiln_cuda.so .*cannot be loaded' "a file that is no library"
echo 'extern int made_by_nobody(void); int (*const plugin)(void) = made_by_nobody;' >plugin.c
${CC:-cc} -shared -fPIC -o libkiln_cuda.so plugin.c || exit 1
says 'libkiln_cuda.so was built for another LibTorch or Kiln than libdiffusionz.so (undefined symbol: made_by_nobody): build both with one `make`$' \
    "a library that lacks a symbol"
plugin kiln_cuda_plugin_0 2.11.0 ""
says 'is of another version of Kiln' "a library of another Kiln"
plugin "$symbol" 1.13.1 ""
says 'was built for LibTorch 1.13.1, the pipeline for [0-9]*[.]' "a library of another LibTorch"
version=$(sed -n 's/.*the pipeline for \(.*\)$/\1/p' err)
plugin "$symbol" "$version" "the driver speaks CUDA 11.4, this build needs 13.0: update the driver"
says 'no usable GPU on this machine: the driver speaks CUDA 11.4, this build needs 13.0: update' "an old driver"
plugin "$symbol" "$version" ""
says 'no usable GPU on this machine$' "no GPU"
plugin "$symbol" "$version" "NVIDIA A100 has compute capability 8.0, and Kiln's kernels were built for 9.0" 1
says "NVIDIA A100 has compute capability 8.0, and Kiln's kernels were built for 9.0" "another card"
plugin "$symbol" "$version" "CUDA error: out of memory" 1
says 'CUDA error: out of memory$' "a card that is full" 71

[ $bad = 0 ] || exit 1
echo "every way to have no usable GPU has its sentence"
