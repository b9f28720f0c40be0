#!/bin/bash
# The benches of the queue run to their end on a small queue and say what they promise to say; how
# fast it was is no business of a test.
. "$KILN_SOURCE/tests/cli/lib.sh"

# Every job through simulated workers; memory and tables are told.
ok kiln bench queue --jobs 2000 --workers 6 --json
json out.txt 'd["jobs"] == 2000 and d["worker_count"] == 6 and d["jobs_per_s"] > 0'
json out.txt 'len(d["memory_bytes"]) > 2 and all(m["scheduler"] > 0 for m in d["memory_bytes"])'
json out.txt 'all(t["rows"] == 2000 for t in d["tables"] if t["table"] in ("image", "latent"))'
json out.txt '[t["in_place"] * 10 >= t["updates"] * 4 for t in d["tables"] if t["table"] == "job"] == [True]'

ok kiln bench restart --jobs 3000
says 'to its first assignment, 3000 jobs' out.txt

fails 64 kiln bench queue --jobs 0
fails 64 kiln bench queue --workers 1000
ls -d "${TMPDIR:-/tmp}"/kiln-bench.* >ls.txt 2>/dev/null && die "a bench left its directory"
exit 0
