#!/bin/sh
# embed.sh ARRAY FILE... - prints C source that holds the files: struct kiln_embedded ARRAY[] of
# (base name, bytes, size), ended by a NULL name.  See schemas/embedded.h.
set -eu
array=$1
shift
echo '#include "schemas/embedded.h"'
i=0
for file in "$@"; do
    printf 'static const unsigned char data_%d[] = {' "$i"
    od -An -v -tx1 "$file" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
    echo '0};'
    i=$((i + 1))
done
echo "const struct kiln_embedded $array[] = {"
i=0
for file in "$@"; do
    printf '    {"%s", (const char *)data_%d, sizeof data_%d - 1},\n' "$(basename "$file")" "$i" "$i"
    i=$((i + 1))
done
echo '    {0, 0, 0},'
echo '};'
