#!/bin/bash
# test_examples.sh - the example programs of scripts/examples render with the built library, and the
# C one and the Python one give the same bytes.
set -euo pipefail
case $BUILD in /*) ;; *) BUILD=$KILN_SOURCE/$BUILD ;; esac
[ -e "$BUILD/libdiffusionz.so" ] || { echo "libdiffusionz.so is not built"; exit 77; }
model=$KILN_SOURCE/tests/golden/models/plain
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -I"$KILN_SOURCE" -o render \
    "$KILN_SOURCE/scripts/examples/render.c" -L"$BUILD" -ldiffusionz -Wl,-rpath,"$BUILD" \
    -Wl,--allow-shlib-undefined
./render "$model" "a red star" c >c.txt
[ "$(cat c.txt)" = "$(printf 'c-1.webp\nc-2.webp\nc-3.webp')" ]
for i in 1 2 3; do
    [ "$(head -c 4 c-$i.webp)" = RIFF ] || { echo "c-$i.webp is no WebP file"; exit 1; }
done
! cmp -s c-1.webp c-2.webp || { echo "two seeds gave one picture"; exit 1; }
if ./render /nowhere "a red star" c 2>error.txt; then
    echo "a missing model was accepted"
    exit 1
fi
grep -q /nowhere error.txt
python3 "$KILN_SOURCE/scripts/examples/render.py" --library "$BUILD/libdiffusionz.so" "$model" \
    "a red star" p
for i in 1 2 3; do
    cmp c-$i.webp p-$i.webp
done
python3 "$KILN_SOURCE/scripts/examples/render.py" --library "$BUILD/libdiffusionz.so" "$model" \
    --lora "$KILN_SOURCE/tests/golden/loras/diffusers.safetensors:0.8" "a red star" l
! cmp -s c-1.webp l-1.webp || { echo "the LoRA changed nothing"; exit 1; }
