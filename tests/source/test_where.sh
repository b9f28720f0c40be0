#!/bin/bash
# schemas/WHERE.md: every file that a row names is there and has the name that the row says.
set -u
cd "${KILN_SOURCE:?}" || exit 1
page=schemas/WHERE.md
rows=0
failed=0

# | rule | `file` | `name` |; a rule may hold an escaped bar.
while IFS=$'\t' read -r number file name; do
    rows=$((rows + 1))
    if [ ! -f "$file" ]; then
        echo "$page:$number: there is no $file"
        failed=1
    elif ! grep -qw -- "$name" "$file"; then
        echo "$page:$number: $file does not have $name"
        failed=1
    fi
done < <(awk 'match($0, /\| `[^`]+` \| `[^`]+` \|$/) {
    split(substr($0, RSTART), part, "`"); printf "%d\t%s\t%s\n", NR, part[2], part[4]
}' "$page")

# Every row of a table is read: a row of another form would go unchecked.
written=$(grep -c '^| ' "$page")
headings=$(grep -c '^| rule |' "$page")
dividers=$(grep -c '^| ---' "$page")
if [ "$rows" -ne $((written - headings - dividers)) ]; then
    echo "$page: $rows rows name a file and a name, $((written - headings - dividers)) rows are written"
    failed=1
fi
exit $failed
