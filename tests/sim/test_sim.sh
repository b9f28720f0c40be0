#!/bin/bash
# The simulation keeps its guarantees on a few seeds, repeats itself exactly, and sees what it is there
# to see: with the fence, the order of acknowledging or the leader's lock taken away it must fail.
set -u
case $BUILD in /*) sim=$BUILD/tests/sim/sim ;; *) sim=$KILN_SOURCE/$BUILD/tests/sim/sim ;; esac

"$sim" --seeds 40 --at-once 2 >seeds || { cat seeds; exit 1; }
tail -n 1 seeds

for seed in 9 4; do
    "$sim" --seed $seed >first && "$sim" --seed $seed >second || exit 1
    cmp first second || { echo "seed $seed does not repeat itself"; exit 1; }
    [ "$(wc -l <first)" -gt 100 ] || { echo "seed $seed has no event log"; exit 1; }
done

# Events are hints: without any of them all is done, only later.
"$sim" --seeds 20 --at-once 2 --break no-events >deaf || { cat deaf; exit 1; }

must_break() { # mutation, what it must be caught by, first seed of the class
    "$sim" --seeds 60 --first "$3" --step 10 --at-once 2 --break "$1" >broken &&
        { echo "$1 was not noticed"; exit 1; }
    grep -q "$2" broken || { echo "$1 was noticed by something else:"; grep -A 1 BROKEN broken; exit 1; }
}
must_break no-fencing "was taken at attempt" 2       # workers paused beyond their lease
must_break ack-before-insert "jobs of" 5             # Postgres in trouble
must_break two-leaders "another leader in the calm" 10
echo "three mutations were noticed"
