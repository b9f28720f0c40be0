#!/bin/bash
# What the tree promises of its own source: short files, no marks of unfinished work, no banned
# calls, C++ in one folder, a README in every folder, headers that compile alone and together.
set -u
export LC_ALL=C.UTF-8 # a column is a character, in whatever environment this runs
cd "${KILN_SOURCE:?}" || exit 1
bad=0
complain() { echo "$*"; bad=$((bad + 1)); }

sources=$(find schemas storage scheduler worker pipeline kernels tests scripts \
    \( -name '*.c' -o -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.py' -o -name '*.sh' \) \
    -not -path '*/golden/*')

for file in $sources; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 600 ] || complain "$file: $lines lines; split it (limit 600)"
    case $file in
    *.cpp | *.cc) case $file in pipeline/torch/*) ;; *) complain "$file: C++ lives in pipeline/torch/ alone" ;; esac ;;
    esac
done

# Files that a test or a person left in the root get committed by accident.
folders=' .ci kernels pipeline scheduler schemas scripts storage tests worker '
while read -r name; do
    case $folders in *" $name "*) ;; *) complain "$name: nothing of the tree lives there" ;; esac
done < <(git ls-files | grep / | cut -d/ -f1 | sort -u)
while read -r name; do complain "$name: no file of the root"; done \
    < <(git ls-files | grep -v / | grep -vxE '\.clang-format|\.gitignore|LICENSE|Makefile|README\.md|CHANGELOG\.md')

marks='TO''DO|FIX''ME|X''XX'
while read -r hit; do complain "$hit: a mark of unfinished work"; done \
    < <(grep -nE "\b($marks)\b" $sources Makefile tests/tests.mk)

while read -r hit; do complain "$hit: unbounded or unsafe call"; done \
    < <(grep -nE '\b(strcpy|strcat|sprintf|gets|strtok|system)\(' $(echo "$sources" | grep -E '\.(c|h|cpp)$' | grep -v '^tests/'))

while read -r hit; do complain "$hit: a state as a number; paste KILN_SQL_... of schemas/job.h"; done \
    < <(grep -nE '"[^"]*\b(state|was) *(=|<>|IN) *\(?[0-9]' $(echo "$sources" | grep -E '\.(c|h)$' | grep -v '^tests/'))

while read -r hit; do complain "$hit: longer than 110 columns"; done \
    < <(grep -nE '^.{111,}' $(echo "$sources" | grep -E '\.(c|h|cpp|cu)$') | cut -c1-100)

[ "$(wc -l <README.md)" -le 150 ] || complain "README.md: $(wc -l <README.md) lines (limit 150)"
while read -r hit; do complain "README.md:$hit: longer than 100 columns"; done < <(grep -nE '^.{101,}' README.md)
while read -r hit; do complain "$hit: longer than 100 columns, and no row of a table"; done \
    < <(git ls-files -z '*.md' | xargs -0 grep -nE '^[^|].{100,}' | cut -c1-100)

while read -r folder; do
    [ -e "$folder/README.md" ] || complain "$folder: no README.md"
done < <(echo "$sources" | xargs -n1 dirname | sort -u)

while read -r count folder; do
    [ "$count" -le 25 ] || complain "$folder: $count sources; make rooms (limit 25)"
done < <(echo "$sources" | grep -vE '^(tests|scripts)/' | xargs -n1 dirname | sort | uniq -c)

# A page names every source of its folder, by `stem` or `stem.ext`; name_ref.c goes with name.
while read -r file; do
    page=${file%/*}/README.md stem=${file##*/}
    stem=${stem%%.*} stem=${stem%_ref}
    grep -qE "\`$stem(\.[a-z]+)?\`" "$page" || complain "$file: not named in $page"
done < <(echo "$sources" | grep -E '^(schemas|storage|scheduler|worker|pipeline|kernels)/.*\.(c|h|cpp|hpp|cu|cuh)$')

# So do those of tests, where `_lora` may stand for test_ledger_lora.
while read -r file; do
    page=${file%/*}/README.md stem=${file##*/}
    stem=${stem%%.*}
    grep -qE "\`($stem(\.[a-z]+)?|_${stem#test_*_})\`" "$page" || complain "$file: not named in $page"
done < <(echo "$sources" | grep -E '^tests/.*/test_[^/]*\.(c|sh)$')

headers=$(echo "$sources" | grep -E '\.(h|hpp|cuh)$')
guards=$(grep -HE -m1 '^#ifndef [A-Z0-9_]+_(H|HPP|CUH)$' $headers | sed 's/:#ifndef / /')
while read -r guard; do
    complain "$guard guards" $(echo "$guards" | awk -v g="$guard" '$2 == g { print $1 }') "alike"
done < <(echo "$guards" | awk '{ print $2 }' | sort | uniq -d)

cflags=$(pkg-config --cflags jansson libcrypto libpcre2-8 libpq libcurl 2>/dev/null)
for header in $(echo "$sources" | grep '\.h$' | grep -v '^tests/'); do
    out=$(${CC:-gcc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -I. $cflags -fsyntax-only -x c - \
        <<<"#include \"$header\"" 2>&1) || complain "$header does not compile alone: $out"
done

[ $bad = 0 ] || { echo "$bad findings"; exit 1; }
echo "$(echo "$sources" | wc -l) files keep the rules"
