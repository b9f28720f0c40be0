#!/bin/bash
# Lists of devices: what is not there is refused before anything starts, with what is there.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
nothing_runs() { [ -z "$(ls s/run/*.pid 2>/dev/null)" ] || die "something was started: $(ls s/run)"; }

# A choice of GPUs that chooses none hides those that a machine may have.
export CUDA_VISIBLE_DEVICES=
fails 69 kiln up --dir s --engine testcard --device cuda:all
says 'cuda:all: this machine has no NVIDIA GPU that CUDA_VISIBLE_DEVICES allows'
grep -q 'no settings file' err.txt && die "it speaks of a settings file that it does not read"
fails 69 kiln up --dir s --engine testcard --device cpu,cuda:3
says 'cuda:3: this machine has no NVIDIA GPU'
fails 64 kiln up --dir s --engine testcard --device cuda:0x
says "device 'cuda:0x' is neither cpu nor cuda:N nor cuda:all"
fails 64 kiln up --dir s --engine testcard --device "$(printf 'cpu%.0s' 1)$(printf ',cpu%.0s' $(seq 16))"
says 'more than 16 devices'
nothing_runs

# One worker a device; a wrong list for one more changes nothing.
stacks+=(s)
ok kiln up --dir s --engine testcard --device cpu,cpu
export KILN_CONFIG=$PWD/s/kiln.conf
ok kiln workers --json
json_lines out.txt '[w["device"] for w in d] == ["cpu", "cpu"]'
fails 69 kiln worker start --device cuda:all --dir s
says 'cuda:all: this machine has no NVIDIA GPU'
ok kiln workers --json
json_lines out.txt 'len(d) == 2 and all(w["state"] == "live" for w in d)'
fails 69 kiln bench fleet --device cuda:0
fails 65 kiln bench fleet --devices 2,1
echo ok
