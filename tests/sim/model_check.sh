#!/bin/bash
# model_check.sh DIR - checks schemas/job.pml with spin: the model keeps its promises, and each of its
# broken variants breaks the one it is said to break.  DIR is for what spin writes.
# MODEL_FAULTS=4 looks further, for minutes.  Ends with 77 where spin is not installed.
set -u
model=$(cd "$(dirname "$0")/../.." && pwd)/schemas/job.pml
command -v spin >/dev/null || { echo "model-check needs spin: apt-get install spin"; exit 77; }
mkdir -p "$1" && cd "$1" || exit 1

# Sizes in which every state is visited within seconds.
search() { # claim, how to compile, how to run, options of the model
    local claim=$1 compile=$2 run=$3
    shift 3
    rm -f pan pan.* ./*.trail
    spin -a "$@" "$model" >spin.log 2>&1 && ${CC:-gcc} -w -DNFAIR=3 -DCOLLAPSE -DVECTORSZ=2048 $compile -o pan pan.c ||
        { cat spin.log; exit 1; }
    ./pan -m200000 $run -N "$claim" >pan.log 2>&1 || { cat pan.log; exit 1; }
    grep -q "max search depth too small\|out of memory" pan.log && { cat pan.log; exit 1; }
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
    errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' pan.log)
}

holds() {
    search "$@"
    [ "$errors" = 0 ] || { head -n 3 pan.log; spin -t -p -g "${@:4}" "$model" | tail -n 60; exit 1; }
    echo "holds: $1 with ${*:4} ($states states)"
}

breaks() { # what spin must say
    local words=$1
    shift
    search "$@"
    [ "${errors:-0}" != 0 ] || { echo "${*:4}: spin finds no error"; exit 1; }
    grep -q "$words" pan.log || { echo "${*:4}: broken by something else:"; head -n 3 pan.log; exit 1; }
    echo "breaks: ${*:4}: $words"
}

holds kept "-O1 -DSAFETY" "" -DJOBS=1 -DFAULTS="${MODEL_FAULTS:-3}"
holds kept -DSAFETY "" -DJOBS=2 -DFAULTS=1
holds ends "" "-a -f" -DJOBS=1 -DFAULTS=2
holds ends "" "-a -f" -DJOBS=2 -DFAULTS=1
breaks "assertion violated (committed" kept -DSAFETY "" -DJOBS=1 -DFAULTS=2 -DNO_FENCING
breaks "assertion violated  !( !((waits" kept -DSAFETY "" -DJOBS=1 -DFAULTS=1 -DACK_BEFORE_INSERT
breaks "acceptance cycle" ends "" "-a -f" -DJOBS=1 -DFAULTS=1 -DNO_RECONCILING
breaks "assertion violated ((faults" kept -DSAFETY "" -DJOBS=2 -DFAULTS=0 -DTWO_LEADERS
echo "the model holds, and what it rests on is needed"
