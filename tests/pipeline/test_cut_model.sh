#!/bin/bash
# A model file that is cut short while the worker has it mapped: one sentence and status 74, by the
# programs that read it and by `kiln`; SIGBUS from elsewhere ends it as ever.  A library before libc cuts the file as
# soon as it is mapped, which no copying over it could do at the right moment.
set -u
case $BUILD in /*) build=$BUILD ;; *) build=$KILN_SOURCE/$BUILD ;; esac
[ -e "${LIBTORCH:-}/lib/libtorch_cpu.so" ] || { echo "skip: no LibTorch"; exit 77; }
bad=0
fail() { echo "FAIL: $*"; bad=$((bad + 1)); }
cat >cut.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    void *(*next)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    void *map = next(at, size, prot, flags, fd, offset);
    char name[64], path[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (fd >= 0 && readlink(name, path, sizeof path - 1) > 0 &&
        strstr(path, "/transformer/diffusion_pytorch_model.safetensors"))
        return truncate(path, 0) ? MAP_FAILED : map;
    return map;
}
void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
C
${CC:-cc} -shared -fPIC -o cut.so cut.c -ldl || exit 1

# cut PROGRAM OPTIONS: on a copy of the model, which is then of no use any more.
cut() {
    rm -rf model
    cp -rL "$KILN_SOURCE/tests/golden/models/plain" model && chmod -R u+w model || exit 1
    LD_PRELOAD=$PWD/cut.so "$@" --model model >out 2>err </dev/null
    local got=$?
    [ $got = 74 ] || fail "$1 $2: status $got, not 74: $(head -c 300 err)"
    [ "$(wc -l <err)" = 1 ] || fail "$1 $2: $(wc -l <err) lines: $(head -c 300 err)"
    grep -q '^kiln-\(worker\|bench\): a mapped model file was cut short .*renaming a new one over the old$' err ||
        fail "$1 $2: $(head -c 300 err)"
    [ ! -s model/transformer/diffusion_pytorch_model.safetensors ] || fail "$1 $2: nothing was cut"
}
picture=(--prompt x --width 64 --height 64 --steps 1 --out x.webp)
cut "$build/kiln-worker" render "${picture[@]}"
cut "$build/kiln" render "${picture[@]}"
cut "$build/kiln" bench engine
[ ! -e x.webp ] || fail "there is a picture"

mkfifo pipe
"$build/kiln-worker" tokenize --model "$KILN_SOURCE/tests/golden/models/plain" <pipe >out 2>err &
exec 3>pipe # open, so that it waits for more
for _ in $(seq 1200); do
    grep -q 'SigCgt:.*[4-7c-f].$' /proc/$!/status && break
    sleep 0.05
done
kill -BUS $!
wait $! 2>/dev/null
got=$?
[ $got = 135 ] || fail "SIGBUS by kill: status $got, not 135"
[ ! -s err ] || fail "SIGBUS by kill: $(head -c 300 err)"

[ $bad = 0 ] || exit 1
echo "a model file that is cut short has its sentence"
