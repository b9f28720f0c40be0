/* fit.c - the weights of the router's evidence: logistic regression by Newton's method, with a
 * small quadratic penalty (Bishop 2006, 4.3.3), over each (prompt, candidate) pair.
 *
 * Wanted is 1, in neither list is 0; what may be is left out, as are LoRAs for which nothing
 * speaks. Evidence for a LoRA never counts against it: a weight with the wrong sign is set to 0,
 * and the others are fitted again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/bench/routing/routing.h"
#include "schemas/room.h"

#define PARTS 5 /* bias, t, k, b, n */
#define STEPS 60
#define PENALTY 0.02 /* of all but the bias */

struct row {
    double x[PARTS];
    double label;
};

struct rows {
    struct row *at;
    size_t count, room;
};

static int add_rows(struct kiln_router_reader *reader, const struct kiln_routing_case *c,
                    struct rows *rows, struct kiln_error *err)
{
    for (size_t i = 0; i < reader->candidate_count; i++) {
        const struct kiln_candidate *seen = &reader->candidates[i];
        if (seen->barred || kiln_routing_in(&c->may, seen->lora))
            continue;
        struct row *at = kiln_room(rows->at, rows->count, &rows->room, sizeof *at);
        if (!at)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory to fit weights");
        rows->at = at;
        at[rows->count++] = (struct row){
            {1, seen->t / 1000.0, seen->k / 1000.0, seen->b / 1000.0, seen->n / 1000.0},
            kiln_routing_wanted(c, seen->lora)};
    }
    return 0;
}

/* a x = b for small symmetric positive a, in place (Gauss). */
static void solve(double a[PARTS][PARTS], double b[PARTS])
{
    for (int i = 0; i < PARTS; i++)
        for (int r = i + 1; r < PARTS; r++) {
            const double f = a[r][i] / a[i][i];
            for (int c = i; c < PARTS; c++)
                a[r][c] -= f * a[i][c];
            b[r] -= f * b[i];
        }
    for (int i = PARTS; i-- > 0;) {
        for (int c = i + 1; c < PARTS; c++)
            b[i] -= a[i][c] * b[c];
        b[i] /= a[i][i];
    }
}

static void newton(const struct rows *rows, const bool used[PARTS], double w[PARTS])
{
    memset(w, 0, PARTS * sizeof *w);
    for (int step = 0; step < STEPS; step++) {
        double hessian[PARTS][PARTS] = {{0}}, gradient[PARTS] = {0};
        for (size_t i = 0; i < rows->count; i++) {
            const struct row *row = &rows->at[i];
            double z = 0;
            for (int p = 0; p < PARTS; p++)
                z += used[p] ? w[p] * row->x[p] : 0;
            const double y = 1 / (1 + exp(-z));
            for (int p = 0; p < PARTS; p++)
                for (int q = 0; q < PARTS; q++)
                    hessian[p][q] += used[p] && used[q] ? y * (1 - y) * row->x[p] * row->x[q] : 0;
            for (int p = 0; p < PARTS; p++)
                gradient[p] += used[p] ? (row->label - y) * row->x[p] : 0;
        }
        for (int p = 0; p < PARTS; p++) {
            gradient[p] -= p > 0 ? PENALTY * w[p] : 0;
            hessian[p][p] += used[p] ? PENALTY : 1;
        }
        solve(hessian, gradient);
        for (int p = 0; p < PARTS; p++)
            w[p] += used[p] ? fmax(-2, fmin(2, gradient[p])) : 0;
    }
}

int kiln_routing_fit(const struct kiln_router *router, const struct kiln_router_pool *pool,
                     const struct kiln_routing_set *set, unsigned parts,
                     struct kiln_router_weights *ret, struct kiln_error *err)
{
    struct kiln_router_reader *reader = kiln_router_reader_new(router);
    struct rows rows = {0};
    int rc = reader ? 0 : kiln_fail(err, KILN_NO_MEMORY, "no memory to fit weights");
    for (size_t i = 0; i < set->count && !rc; i++) {
        const struct kiln_router_request request = {.prompt = set->at[i].prompt, .pool = *pool};
        rc = kiln_router_read(reader, &request, err);
        if (!rc) /* without weights every LoRA with any evidence is a candidate */
            kiln_router_score(reader, pool, &(struct kiln_router_weights){.bias = 0});
        rc = rc ? rc : add_rows(reader, &set->at[i], &rows, err);
    }
    bool used[PARTS] = {true, parts & KILN_PART_T, parts & KILN_PART_K, parts & KILN_PART_B,
                        parts & KILN_PART_N};
    double w[PARTS];
    for (bool again = !rc; again;) {
        again = false;
        newton(&rows, used, w);
        for (int p = 1; p < PARTS; p++)
            if (used[p] && (p == PARTS - 1 ? w[p] > 0 : w[p] < 0)) {
                used[p] = false;
                w[p] = 0;
                again = true;
            }
    }
    if (!rc)
        *ret = (struct kiln_router_weights){(int)lround(w[0] * 1000), (int)lround(w[1] * 1000),
                                            (int)lround(w[2] * 1000), (int)lround(w[3] * 1000),
                                            (int)lround(w[4] * 1000)};
    free(rows.at);
    kiln_router_reader_free(reader);
    return rc;
}
