#!/bin/bash
# Two people who order opposite things at the same moment: whoever comes second is told or has the last
# word, and what is left is one of the two, whole.
. "$KILN_SOURCE/tests/cli/lib.sh"
chmod 711 .
stacks+=(s)
ok kiln up --dir s --engine testcard
export KILN_CONFIG=$PWD/s/kiln.conf
both() { # "WORDS" "WORDS": both commands at once; their exit codes in $one and $two, what they say in *.err
    kiln $1 >one.txt 2>one.err &
    local first=$!
    kiln $2 >two.txt 2>two.err
    two=$?
    wait $first
    one=$?
}
among() { # CODES...: each of the two ended with one of them
    local code
    for code in $one $two; do
        case " $* " in *" $code "*) ;; *) cat one.err two.err >&2; die "ended with $one and $two" ;; esac
    done
}
counts() { sql "SELECT count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 4) FROM job j JOIN batch b ON b.id = batch_id WHERE name = '$1'"; }
agree() { # the sums of a batch are those of its jobs, in one snapshot
    [ "$(sql "SELECT (SELECT row(sum(queued), sum(assigned), sum(done), sum(failed), sum(cancelled)) FROM batch_tally WHERE batch_id = b.id)::text = (SELECT row(count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 4)) FROM job WHERE batch_id = b.id)::text FROM batch b WHERE name = '$1'")" = t ] || die "the sums of batch $1 are not those of its jobs"
}

# --- cancel and retry of a batch that is being drawn: nothing is lost, nothing drawn twice
echo '{"prompt": "@step_ms=20 a {red|blue} star", "width": 64, "height": 64, "steps": 1, "count": 60}' >jobs.jsonl
ok kiln enqueue jobs.jsonl --batch b
for round in 1 2 3 4; do
    both "cancel b --yes" "retry b"
    among 0
done
agree b
ok kiln retry --batch b
ok kiln wait b --timeout 60
[ "$(counts b)" = "0|0|120|0|0" ] && [ "$(sql 'SELECT count(*) FROM image')" = 120 ] || die "not all jobs are done: $(counts b)"
[ "$(sql "SELECT count(*) FROM (SELECT FROM event WHERE state = 2 GROUP BY job_id HAVING count(*) > 1) x")" = 0 ] || die "a job was done twice"

# --- the same backfill given twice, with other prompts: one of them, with its own prompts alone
for round in 1 2 3; do
    both "backfill add o --template one{1|2|3} --set size=64x64 --low-water 2" "backfill add o --template two{1|2|3|4} --set size=64x64 --low-water 2"
    [ "$one$two" = 073 ] || [ "$one$two" = 730 ] || die "two orders of one name ended with $one and $two"
    says "already has a backfill 'o'" $([ $one = 73 ] && echo one.err || echo two.err)
    [ "$(sql "SELECT count(*), min(pass_jobs) FROM backfill")" = "1|$([ $one = 0 ] && echo 3 || echo 4)" ] || die "not one order"
    [ "$(sql "SELECT count(DISTINCT left(line, 15)) FROM backfill_line")" = 1 ] || die "the lines of both are kept"
    # --- pause, resume and rm of it: it is gone, and nothing of it is held
    both "backfill rm o --yes" "backfill $([ $round = 2 ] && echo resume || echo pause) o"
    [ $one = 0 ] || { cat one.err >&2; die "rm ended with $one"; }
    among 0 1 66
    [ "$(sql 'SELECT count(*) FROM backfill')" = 0 ] || die "the order is still there"
    sql "DELETE FROM hold WHERE name = 'o'" # of a pause that came after
done

# --- pause and resume of everything; set and rm of a quota: one of the two is in force and both know
both "pause --all --yes" "resume --all"
among 0 1
ok kiln status --json
json out.txt "len(d['holds']) == $(sql "SELECT count(*) FROM hold WHERE held")"
ok kiln resume --all
ok kiln quota set ann --queued 5
both "quota set ann --queued 7" "quota rm ann --yes"
among 0
[ -z "$(sql "SELECT queued FROM quota WHERE tenant = 'ann' AND queued <> 7")" ] || die "neither the new quota nor none"

# --- marks for pictures that gc is just about to take: what is marked is whole
job=$(sql "SELECT min(job_id) FROM image")
for round in 1 2 3; do
    both "gc --older-than 0 --yes --grace 0" "favourite add $((job + round)) $((job + round + 30))"
    among 0 66 75
done
[ "$(sql "SELECT count(*) FROM favourite f WHERE NOT EXISTS (SELECT FROM object o WHERE o.job_id = f.job_id) OR NOT EXISTS (SELECT FROM image i WHERE i.job_id = f.job_id)")" = 0 ] || die "a mark for nothing"
both "gc --older-than 0 --yes --grace 0" "gc --older-than 0 --yes --grace 0"
among 0
[ "$(find s/store -type f | wc -l)" = "$(sql 'SELECT count(*) FROM object')" ] || die "store and ledger differ"

# --- a batch removed while its jobs are tried again: it is gone, or there with all its jobs
ok kiln enqueue jobs.jsonl --batch c
ok kiln cancel c --yes
both "batch rm c --yes --force" "retry --batch c"
among 0 66 75
if [ -n "$(sql "SELECT id FROM batch WHERE name = 'c'")" ]; then
    agree c
    ok kiln batch rm c --yes --force
fi
[ "$(sql "SELECT count(*) FROM job WHERE batch_id NOT IN (SELECT id FROM batch)")" = 0 ] || die "jobs without a batch"

# --- a worker that is drained by two at once, and wanted again: the drain has its way, then `up` starts it
pid=$(pid_of s worker-0)
both "drain $cpu0 --wait --timeout 120" "drain --all --yes"
among 0
soon gone "$pid" || die "the drained worker goes on"
ok kiln up --dir s
[ "$(pid_of s worker-0)" != "$pid" ] || die "the drained worker goes on"
ok kiln enqueue - --batch last <<<'{"prompt": "last", "width": 64, "height": 64}'
ok kiln wait last --timeout 60
echo ok
