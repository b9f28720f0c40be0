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

#define PARTS 5 /* bias, t, k, b, n; of meaning bias, b, c, m, x */
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
                    bool meaning, struct rows *rows, struct kiln_error *err)
{
    for (size_t i = 0; i < reader->candidate_count; i++) {
        const struct kiln_candidate *seen = &reader->candidates[i];
        if (seen->barred || kiln_routing_in(&c->may, seen->lora) || (meaning && !seen->by_meaning))
            continue;
        struct row *at = kiln_room(rows->at, rows->count, &rows->room, sizeof *at);
        if (!at)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory to fit weights");
        rows->at = at;
        const double label = kiln_routing_wanted(c, seen->lora);
        const int words[] = {1000, seen->t, seen->k, seen->b, seen->n};
        const int means[] = {1000, seen->b, seen->c, seen->m, seen->x};
        for (int p = 0; p < PARTS; p++)
            at[rows->count].x[p] = (meaning ? means[p] : words[p]) / 1000.0;
        at[rows->count++].label = label;
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

/* The weights of those evidences that `used` names; a sign that is wrong takes one out. */
static void fit_rows(const struct rows *rows, const int signs[PARTS], bool used[PARTS],
                     int ret[PARTS])
{
    double w[PARTS];
    for (bool again = true; again;) {
        again = false;
        newton(rows, used, w);
        for (int p = 1; p < PARTS; p++)
            if (used[p] && w[p] * signs[p] < 0) {
                used[p] = false;
                again = true;
            }
    }
    for (int p = 0; p < PARTS; p++)
        ret[p] = used[p] ? (int)lround(w[p] * 1000) : 0;
}

static const int signs[PARTS] = {0, 1, 1, 1, -1}; /* that each weight must have */

int kiln_routing_fit(const struct kiln_routing_under_test *of, const struct kiln_routing_set *set,
                     unsigned parts, struct kiln_router_weights *ret, struct kiln_error *err)
{
    struct kiln_routing_reader reader = {0};
    struct rows rows = {0};
    int rc = kiln_routing_reader_open(of, &reader, err), w[PARTS];
    for (size_t i = 0; i < set->count && !rc; i++) {
        struct kiln_router_request request;
        rc = kiln_routing_request(&reader, set->at[i].prompt, &request, err);
        rc = rc ? rc : kiln_router_read(reader.reader, &request, err);
        if (!rc) /* without weights every LoRA with any evidence is a candidate */
            kiln_router_score(reader.reader, &of->pool, &(struct kiln_router_weights){.bias = 0});
        rc = rc ? rc : add_rows(reader.reader, &set->at[i], false, &rows, err);
    }
    bool used[PARTS] = {true, parts & KILN_PART_T, parts & KILN_PART_K, parts & KILN_PART_B,
                        parts & KILN_PART_N};
    if (!rc) {
        fit_rows(&rows, signs, used, w);
        *ret = (struct kiln_router_weights){w[0], w[1], w[2], w[3], w[4]};
    }
    free(rows.at);
    kiln_routing_reader_release(&reader);
    return rc;
}

int kiln_routing_fit_meaning(const struct kiln_routing_under_test *of,
                             const struct kiln_routing_set *set,
                             const struct kiln_router_weights *words,
                             struct kiln_meaning_weights *ret, struct kiln_error *err)
{
    const struct kiln_meaning_weights before = of->router->meaning->weights;
    struct kiln_routing_reader reader = {0};
    struct rows rows = {0};
    int rc = kiln_routing_reader_open(of, &reader, err), w[PARTS];
    of->router->meaning->weights = (struct kiln_meaning_weights){.bias = 0};
    for (size_t i = 0; i < set->count && !rc; i++) {
        struct kiln_router_request request;
        rc = kiln_routing_request(&reader, set->at[i].prompt, &request, err);
        rc = rc ? rc : kiln_router_read(reader.reader, &request, err);
        rc = rc ? rc : kiln_router_compare(reader.reader, &request, err);
        if (!rc) /* by_meaning: where words choose nothing */
            kiln_router_score(reader.reader, &of->pool, words);
        rc = rc ? rc : add_rows(reader.reader, &set->at[i], true, &rows, err);
    }
    of->router->meaning->weights = before;
    bool used[PARTS] = {true, words->b != 0, true, true, true};
    if (!rc) {
        fit_rows(&rows, signs, used, w);
        *ret = (struct kiln_meaning_weights){w[0], w[1], w[2], w[3], w[4]};
    }
    free(rows.at);
    kiln_routing_reader_release(&reader);
    return rc;
}
