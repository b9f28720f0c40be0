/* check.c - see check.h.
 *
 * Each rule is a question to the ledger that counts its breaches.  The last ones compare the ledger
 * with a listing of the bucket.
 */
#include "tests/chaos/check.h"

#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/digest.h"
#include "tests/support/stack_postgres.h"
#include "tests/support/store.h"

#define OBJECTS_MAX 8192
#define READ_BACK 16 /* objects whose bytes are compared, beside the sizes of all */

struct rule {
    const char *what, *breaches;
};

/* States: 0 queued, 1 assigned, 2 done, 3 failed, 4 cancelled.  kind 0 is an image. */
static const struct rule rules[] = {
    {"every job has ended", "SELECT count(*) FROM job WHERE state IN (0, 1)"},
    {"every job ended once",
     "SELECT count(*) FROM job j WHERE 1 <> (SELECT count(*) FROM event e WHERE e.job_id = j.id"
     " AND e.state IN (2, 3, 4))"},
    {"only what was told to fail has failed",
     "SELECT count(*) FROM job WHERE state = 3 AND prompt !~ '@fail'"},
    {"what was told to fail is not done",
     "SELECT count(*) FROM job WHERE state = 2 AND prompt ~ '@fail'"},
    {"only jobs of the cancelled batch are cancelled",
     "SELECT count(*) FROM job j JOIN batch b ON b.id = j.batch_id WHERE j.state = 4"
     " AND b.name <> 'b3'"},
    {"one image a done image job, none for any other",
     "SELECT count(*) FROM job j WHERE (j.state = 2 AND j.kind = 0)::int <>"
     " (SELECT count(*) FROM image i WHERE i.job_id = j.id)"},
    {"one latent a done job, none for any other",
     "SELECT count(*) FROM job j WHERE (j.state = 2)::int <>"
     " (SELECT count(*) FROM latent l WHERE l.job_id = j.id)"},
    {"objects of done jobs alone, each with what its kind asks for",
     "SELECT count(*) FROM job j WHERE (CASE WHEN j.state <> 2 THEN 0 WHEN j.kind <> 0 THEN 1"
     " WHEN j.width > 256 THEN 3 ELSE 2 END) <> (SELECT count(*) FROM object o"
     " WHERE o.job_id = j.id)"},
    {"an image is of its job's last attempt",
     "SELECT count(*) FROM image i JOIN job j ON j.id = i.job_id WHERE i.attempt <> j.attempt"},
    {"every move in the event table is legal",
     "SELECT count(*) FROM event WHERE (was, state) NOT IN"
     " ((0, 1), (0, 4), (1, 0), (1, 2), (1, 3), (1, 4), (3, 0), (4, 0))"},
    {"each move begins where the one before ended",
     "SELECT count(*) FROM (SELECT was, lag(state, 1, 0::smallint) OVER"
     " (PARTITION BY job_id ORDER BY id) AS before FROM event) e WHERE was <> before"},
    {"the last move of a job led to its state",
     "SELECT count(*) FROM job j WHERE state <> (SELECT e.state FROM event e WHERE e.job_id = j.id"
     " ORDER BY e.id DESC LIMIT 1)"},
    {"an assignment raises the attempt by one, nothing else touches it",
     "SELECT count(*) FROM (SELECT state, attempt - lag(attempt, 1, 0) OVER"
     " (PARTITION BY job_id ORDER BY id) AS step FROM event) e WHERE step <> (state = 1)::int"},
    {"attempts count the assignments",
     "SELECT count(*) FROM job j WHERE attempt <> (SELECT count(*) FROM event e"
     " WHERE e.job_id = j.id AND e.state = 1)"},
    {"a batch's sums are those of its jobs",
     "SELECT count(*) FROM (SELECT batch_id, sum(queued) AS a, sum(assigned) AS b, sum(done) AS c,"
     " sum(failed) AS d, sum(cancelled) AS e FROM batch_tally GROUP BY 1) t JOIN (SELECT batch_id,"
     " count(*) FILTER (WHERE state = 0) AS a, count(*) FILTER (WHERE state = 1) AS b,"
     " count(*) FILTER (WHERE state = 2) AS c, count(*) FILTER (WHERE state = 3) AS d,"
     " count(*) FILTER (WHERE state = 4) AS e FROM job GROUP BY 1) j USING (batch_id)"
     " WHERE (t.a, t.b, t.c, t.d, t.e) <> (j.a, j.b, j.c, j.d, j.e)"},
    {"nothing was refused", "SELECT count(*) FROM intake_refusal"},
};

static bool silent; /* while rules are broken on purpose */

static void say(const char *fmt, ...) KILN_PRINTF(1, 2);
static void say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!silent)
        vprintf(fmt, args);
    va_end(args);
}

static int check_rules(const struct chaos_site *site, int jobs)
{
    int broken = 0;
    long long have = kiln_test_count(site->stack, "SELECT count(*) FROM job");
    if (have != jobs) {
        say("broken: %lld jobs in the ledger, %d were sent\n", have, jobs);
        broken++;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        long long breaches = kiln_test_count(site->stack, rules[i].breaches);
        if (breaches != 0)
            say("broken: %s: %lld do not keep it\n", rules[i].what, breaches);
        broken += (int)breaches;
    }
    return broken;
}

/* --- the bucket ------------------------------------------------------------------------------- */

struct listed {
    char key[256];
    uint64_t size;
};
struct listing {
    struct listed *at;
    size_t count;
};

static int note(void *arg, const char *key, uint64_t size, int64_t modified_s)
{
    struct listing *listing = arg;
    (void)modified_s;
    if (listing->count == OBJECTS_MAX)
        return KILN_FULL;
    snprintf(listing->at[listing->count].key, sizeof listing->at[0].key, "%s", key);
    listing->at[listing->count++].size = size;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->key, ((const struct listed *)b)->key);
}

static bool check_bytes(struct kiln_store *store, const char *key, const char *sha256)
{
    uint8_t digest[KILN_SHA256_SIZE];
    char hex[2 * KILN_SHA256_SIZE + 1];
    void *data = NULL;
    size_t size;
    if (kiln_store_get(store, key, 1 << 24, &data, &size, NULL) != 0) {
        say("broken: object %s cannot be read\n", key);
        return false;
    }
    kiln_sha256(data, size, digest);
    kiln_hex(digest, sizeof digest, hex);
    free(data);
    if (strcmp(hex, sha256) != 0)
        say("broken: object %s has other bytes than its row says\n", key);
    return strcmp(hex, sha256) == 0;
}

static bool check_rows(const PGresult *rows, const struct listing *listing,
                       struct kiln_store *store)
{
    bool good = true;
    int count = PQntuples(rows);
    for (int i = 0; i < count; i++) {
        struct listed wanted;
        snprintf(wanted.key, sizeof wanted.key, "%s", PQgetvalue(rows, i, 0));
        const struct listed *found =
            bsearch(&wanted, listing->at, listing->count, sizeof *listing->at, by_key);
        uint64_t bytes = strtoull(PQgetvalue(rows, i, 1), NULL, 10);
        if (!found || found->size != bytes) {
            say("broken: object %s of a row %s\n", wanted.key,
                found ? "has another size" : "is not in the bucket");
            good = false;
        } else if (i % (count / READ_BACK + 1) == 0) {
            good = check_bytes(store, wanted.key, PQgetvalue(rows, i, 2)) && good;
        }
    }
    say("  %d object rows, %zu objects in the bucket\n", count, listing->count);
    return good;
}

static bool check_bucket(const struct chaos_site *site)
{
    struct listing listing = {.at = calloc(OBJECTS_MAX, sizeof *listing.at)};
    struct kiln_store *store = test_s3_store(test_swift_port(site->swift), site->prefix, NULL);
    struct kiln_error err;
    if (!listing.at || kiln_store_list(store, "", note, &listing, &err))
        kiln_test_die("the bucket cannot be listed: %s", listing.at ? err.text : "no memory");
    qsort(listing.at, listing.count, sizeof *listing.at, by_key);
    PGconn *connection = PQconnectdb(site->stack->conninfo);
    PGresult *rows = PQexec(connection, "SELECT key, bytes, sha256 FROM object");
    if (PQresultStatus(rows) != PGRES_TUPLES_OK)
        kiln_test_die("%s", PQerrorMessage(connection));
    bool good = check_rows(rows, &listing, store);
    PQclear(rows);
    PQfinish(connection);
    kiln_store_close(store);
    free(listing.at);
    return good;
}

int chaos_check(const struct chaos_site *site, int jobs)
{
    int broken = check_rules(site, jobs);
    return broken + !check_bucket(site);
}

/* --- whether it would be noticed -------------------------------------------------------------- */

#define ONE_DONE "(SELECT min(id) FROM job WHERE state = 2 AND kind = 0)"

/* Each adds a breach to the ones before it. */
static const char *const breaches[] = {
    "DELETE FROM image WHERE job_id = " ONE_DONE,
    "INSERT INTO event (job_id, was, state, code, attempt) VALUES (" ONE_DONE ", 1, 2, 0, 1)",
    "UPDATE job SET attempt = attempt + 1 WHERE id = (SELECT max(id) FROM job WHERE state = 2)",
    "UPDATE batch_tally SET done = done + 1 WHERE (batch_id, shard) = (SELECT batch_id, shard"
    " FROM batch_tally LIMIT 1)",
    "DELETE FROM event WHERE id = (SELECT max(id) FROM event WHERE state = 1)",
    "UPDATE object SET key = key || 'x' WHERE key = (SELECT max(key) FROM object"
    " WHERE role = '256')",
};

bool chaos_check_notices(const struct chaos_site *site, int jobs)
{
    bool all = true;
    int before = 0;
    silent = true;
    for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++) {
        free(kiln_test_sql(site->stack, breaches[i]));
        int now = chaos_check(site, jobs);
        if (now <= before)
            printf("not noticed: %s\n", breaches[i]);
        all = all && now > before;
        before = now;
    }
    silent = false;
    return all;
}
