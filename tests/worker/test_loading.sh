#!/bin/bash
# A model that cannot be read on, as from a file server that has gone: the worker says what it waits
# for instead of nothing, and a signal ends it all the same.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
[ -e "$kiln_bin/libdiffusionz.so" ] || { echo "skip: built without LibTorch"; exit 77; }
stacks+=(s)
ok kiln up --dir s --engine testcard
cp -r "$source_dir/tests/golden/models/plain" model
rm model/vae/config.json
mkfifo model/vae/config.json # which nobody ever writes to
"$kiln_bin/kiln-worker" --config s/kiln.conf --engine pipeline --model model --id slow 2>log.txt &
worker=$!
for i in $(seq 1800); do grep -q engine_loading log.txt && break; sleep 0.05; done
says 'info kiln-worker engine_loading .*for_s=[0-9]* .*waits_for=model ' log.txt
kill -TERM $worker
wait $worker || die "the worker ended with $?"
says 'worker_ended while="the model was loading"' log.txt
