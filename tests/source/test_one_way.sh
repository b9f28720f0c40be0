#!/bin/bash
# The order of calls is one-way: no two sources of the folders below call each other, directly or in a
# circle, and no function that others can call has two definitions there.  Read from the compiled
# objects, so that it holds for calls through any header.
# C++ templates and inline functions, which every object may define, do not count; nor do objects
# of libkiln_cuda.so, which is built only where nvcc is.

# One more folder is a line here; a folder with /. is meant without those in it.
folders='
schemas
storage
kernels
pipeline
scheduler/cli
scheduler/.
scheduler/policy
scheduler/intake
scheduler/cache
scheduler/sim
scheduler/bench
scheduler/gallery
worker
'

set -u
cd "${KILN_SOURCE:?}" || exit 1
objects="${BUILD:?}/obj"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Lines "FILE NAME": what each source defines, and what it needs.  Every program has a main.
for folder in $folders; do
    deep=()
    [ "${folder%/.}" = "$folder" ] || deep=(-maxdepth 1)
    find "${folder%/.}" "${deep[@]}" -path pipeline/torch/cuda -prune -o -name '*.c' -print -o -name '*.cpp' -print
done | while read -r source; do
    # What needs LibTorch is missing in a build with a sanitizer.
    [ ! -e "$objects/$source.o" ] || echo "$source.o"
done > "$work/objects"
(cd "$objects" && xargs nm -gA < "$work/objects") | awk -v d="$work/defined" -v n="$work/needed" '{
    sub(/\.o:.*/, "", $1)
    if ($(NF - 1) == "U") print $NF, $1 > n
    else if ($(NF - 1) ~ /[TDBR]/ && $NF != "main") print $NF, $1 > d
}'
if [ "$(wc -l < "$work/defined")" -lt 500 ]; then
    echo "the objects in $objects define too little to judge by"
    exit 1
fi

failed=0
twice=$(awk '{ print $1 }' "$work/defined" | sort | uniq -d)
if [ -n "$twice" ]; then
    echo "defined twice: $twice"
    failed=1
fi
sort "$work/defined" > "$work/d"
sort "$work/needed" > "$work/n"
join "$work/n" "$work/d" | awk '{ print $2, $3 }' | sort -u > "$work/calls"
if ! tsort "$work/calls" > /dev/null 2> "$work/circles"; then
    echo "these sources call each other in a circle:"
    sed 's/^tsort: [^:]*: /  /' "$work/circles"
    failed=1
fi
[ "$failed" = 0 ] && echo "ok: $(wc -l < "$work/calls") calls between sources, all one way"
exit "$failed"
