#!/bin/bash
# scripts/examples/enqueue.py: a client written from bus.md alone feeds the real queue.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
socket=$(sed -n 's/^redis *= *unix:\([^?]*\).*/\1/p' s/kiln.conf)
[ -S "$socket" ] || die "kiln.conf names no Redis socket: $(grep redis s/kiln.conf)"

send() { "$source_dir/scripts/examples/enqueue.py" "unix:$socket" raw <prompts.txt; }
printf 'a red star\na {not a template} ring\n' >prompts.txt
ok send
json out.txt 'd["batch"] == "raw" and d["accepted"] == 2 and d["duplicate"] == 0 and d["refused"] == 0'
printf 'a red star\na {not a template} ring\na blue heart\n' >prompts.txt
ok send
json out.txt 'd["accepted"] == 1 and d["duplicate"] == 2'
# An edited file, with a line twice: only what changed is new.  `kiln enqueue` finds the same jobs.
printf 'a blue heart\na "red" st\\ar \t猫\na blue heart\na {not a template} ring\n' >prompts.txt
ok send
json out.txt 'd["accepted"] == 2 and d["duplicate"] == 2'
ok kiln enqueue prompts.txt --batch raw --set size=256x256 --set template=false --json
json out.txt 'd["accepted"] == 0 and d["duplicate"] == 4'
ok kiln wait raw --timeout 60
ok kiln jobs --batch raw --state done
[ "$(wc -l <out.txt)" = 5 ] || die "not five pictures"
