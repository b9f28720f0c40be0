#!/bin/bash
# A model that cannot be read on, as from a file server that has gone: the worker says what it waits
# for instead of nothing, and a signal ends it all the same.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
[ -e "$kiln_bin/libdiffusionz.so" ] || { echo "skip: built without LibTorch"; exit 77; }
stacks+=(s)
ok kiln up --dir s --engine testcard
cp -r "$source_dir/tests/golden/models/plain" model
cat >away.c <<'C'
/* Reading the VAE's config takes for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static ssize_t slow_pread(const char *symbol, int fd, void *to, size_t size, off_t at)
{
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/vae/config.json"))
        for (;;)
            pause();
    ssize_t (*real)(int, void *, size_t, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, symbol);
    return real(fd, to, size, at);
}

ssize_t pread(int fd, void *to, size_t size, off_t at) { return slow_pread("pread", fd, to, size, at); }
ssize_t pread64(int fd, void *to, size_t size, off64_t at) { return slow_pread("pread64", fd, to, size, at); }
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room)
{
    (void)room;
    return slow_pread("pread", fd, to, size, at);
}
C
${CC:-cc} -shared -fPIC -o away.so away.c -ldl || die "away.so was not built"
LD_PRELOAD=$PWD/away.so "$kiln_bin/kiln-worker" --config s/kiln.conf --engine pipeline --model model --id slow 2>log.txt &
worker=$!
for i in $(seq 5); do soon grep -q engine_loading log.txt && break; done
says 'info kiln-worker engine_loading .*for_s=[0-9]* .*waits_for=model ' log.txt
kill -TERM $worker
wait $worker || die "the worker ended with $?"
says 'worker_ended while="the model was loading"' log.txt
