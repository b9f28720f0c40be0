#!/bin/bash
# The include rule of README.md, held for every source file:
#
#     schemas  <- storage <- scheduler          kernels, schemas and storage's file formats
#     schemas  <- kernels <- pipeline <- worker      <- pipeline;   storage <- worker
#
# Nothing includes scheduler/ or worker/ from outside; tests may include anything.
set -u
cd "${KILN_SOURCE:?}" || exit 1

allowed() { # folder -> the prefixes its files may include
    case $1 in
    schemas) echo "schemas/" ;;
    kernels) echo "schemas/ kernels/" ;;
    storage) echo "schemas/ storage/" ;;
    pipeline) echo "schemas/ kernels/ pipeline/ storage/json_bounds.h storage/regular.h storage/safetensors.h storage/webp.h" ;;
    scheduler) echo "schemas/ storage/ scheduler/" ;;
    worker) echo "schemas/ storage/ kernels/ pipeline/ worker/" ;;
    esac
}

bad=0
for folder in schemas kernels storage pipeline scheduler worker; do
    rules=$(allowed $folder)
    while IFS=: read -r file line text; do
        included=$(printf '%s' "$text" | sed 's/.*"\(.*\)".*/\1/')
        ok=no
        for prefix in $rules; do
            case $included in "$prefix"*) ok=yes ;; esac
        done
        if [ ! -e "$included" ]; then
            echo "$file:$line: \"$included\" is not written from the root of the tree"
            bad=$((bad + 1))
        elif [ $ok = no ]; then
            echo "$file:$line: $folder/ may not include $included (allowed: $rules)"
            bad=$((bad + 1))
        fi
    done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.[ch]' \
        --include='*.cpp' --include='*.cu' --include='*.cuh' "$folder")
done
[ $bad = 0 ] || { echo "$bad includes break the rule"; exit 1; }
echo "every include follows the rule"
