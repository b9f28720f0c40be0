/* formats.c - in which further number formats the rows of kiln.json hold; see teleport.h.
 *
 * A row was measured in some formats on many pairs.  In another one the same pairs are rendered
 * with the same noise, so what it loses more or less than the first is known far better than the
 * loss itself: of most pairs both come out alike.  The row holds if its loss and that difference,
 * with the standard errors of both, stay within the rule, and its variety reaches the same level.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "storage/formats/card/model_card.h"
#include "worker/bench/measured/card.h"
#include "worker/bench/teleport/teleport.h"
#include "worker/engine/renderer.h"

/* A row of the card, and the two tables in which its runs are compared. */
struct compared {
    const struct kiln_teleport_bench *bench;
    const struct kiln_teleport_table *known, *other; /* of the row's format, and of another */
    int group, run;
    int pool, use; /* positions of its donors and uses; -1: no such pools are measured */
    double loss[2], variety;
};

/* What the other format loses less than the known one, 0..1, of so many (*ret_count). */
static struct kiln_estimate gained(const struct compared *c, enum kiln_teleport_measure measure,
                                   enum kiln_teleport_measure of, double *room, size_t *ret_pairs,
                                   double *ret_count)
{
    const struct kiln_teleport_pairs *pairs = &c->bench->pairs;
    double *values = room, *counts = room + pairs->count;
    size_t n = 0;
    *ret_count = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const double value = kiln_teleport_difference(c->bench, c->other, c->run, measure, i) -
                             kiln_teleport_difference(c->bench, c->known, c->run, measure, i);
        if (pairs->items[i].group != c->group || isnan(value))
            continue;
        values[n] = value;
        counts[n] = kiln_teleport_column(c->other, c->run, of)[i];
        *ret_count += counts[n++];
    }
    *ret_pairs = n;
    return kiln_estimate_ratio(values, counts, n);
}

/* The variety of pools in the other format, as a share of that in the known one. */
static struct kiln_estimate varied_as(const struct compared *c, double *room)
{
    double *values = room, *known = room + c->bench->pairs.count;
    const int32_t depth = c->bench->runs[c->run].depth;
    size_t n = 0;
    for (size_t i = 0; i < c->other->pool_count; i++) {
        const struct kiln_teleport_pool *a = &c->other->pools[i], *b = &c->known->pools[i];
        if (c->bench->pairs.items[a->pair].group != c->group || !a->has[0] || !a->has[depth] ||
            !b->has[0] || !b->has[depth])
            continue;
        values[n] = a->skip[depth].near[c->pool][c->use] / a->full.near[c->pool][c->use];
        known[n++] = b->skip[depth].near[c->pool][c->use] / b->full.near[c->pool][c->use];
    }
    return kiln_estimate_ratio(values, known, n);
}

/* Whether the row holds in the other format; why: what does not, "" if it does. */
static bool holds(const struct compared *c, double *room, char why[KILN_FIGURE_WHY])
{
    size_t pairs;
    double count;
    why[0] = '\0';
    struct kiln_estimate gain =
        gained(c, KILN_TELEPORT_RIGHT, KILN_TELEPORT_ASKED, room, &pairs, &count);
    if (pairs < KILN_TELEPORT_PAIRS_MIN) {
        snprintf(why, KILN_FIGURE_WHY, "%zu pairs are too few to tell", pairs);
        return false;
    }
    bool good =
        kiln_figure_within("attributes", c->loss[0] - 100 * gain.value,
                           kiln_figure_share_error(gain, count), KILN_CARD_LOSS_ATTRIBUTES, why);
    gain = gained(c, KILN_TELEPORT_WHOLE, KILN_TELEPORT_PICTURES, room, &pairs, &count);
    good = kiln_figure_within("whole prompts", c->loss[1] - 100 * gain.value,
                              kiln_figure_share_error(gain, count), KILN_CARD_LOSS_WHOLE, why) &&
           good;
    const struct kiln_estimate share =
        c->pool < 0 ? (struct kiln_estimate){NAN, NAN} : varied_as(c, room);
    const double least = c->variety * (share.value - share.error);
    if (kiln_teleport_level(c->variety) == kiln_teleport_level(least) || !good)
        return good;
    snprintf(why, KILN_FIGURE_WHY, "variety: %.3g of the row's", share.value);
    return false;
}

static int position(const uint32_t *list, int count, uint32_t value)
{
    for (int i = 0; i < count; i++)
        if (list[i] == value)
            return i;
    return -1;
}

/* The row of a class, size and depth that were measured now; false for another. */
static bool find_row(const json_t *row, struct compared *c)
{
    const struct kiln_teleport_bench *bench = c->bench;
    const char *class = json_string_value(json_object_get(row, "class"));
    const char *size = json_string_value(json_array_get(json_object_get(row, "for"), 0));
    const json_t *loss = json_object_get(row, "loss");
    char own[24];
    snprintf(own, sizeof own, "%ux%u", c->other->size.width, c->other->size.height);
    if (!class || !size || strcmp(size, own) != 0 ||
        json_array_size(json_object_get(row, "for")) != 1)
        return false;
    c->group = c->run = -1;
    for (int g = 0; g < KILN_REUSE_CLASS_COUNT - 1; g++)
        if (strcmp(class, bench->pairs.groups[g].name) == 0)
            c->group = g;
    for (int run = 0; run < bench->run_count; run++)
        if (bench->runs[run].kind == KILN_TELEPORT_SKIP &&
            bench->runs[run].depth == json_integer_value(json_object_get(row, "depth")))
            c->run = run;
    c->pool = position(kiln_teleport_donors, KILN_TELEPORT_POOLS,
                       (uint32_t)json_integer_value(json_object_get(row, "donors")));
    c->use = position(kiln_teleport_uses, KILN_TELEPORT_USES,
                      (uint32_t)json_integer_value(json_object_get(row, "uses")));
    c->pool = c->use < 0 ? -1 : c->pool;
    c->variety = json_number_value(json_object_get(row, "variety"));
    c->loss[0] = json_number_value(json_array_get(loss, 0));
    c->loss[1] = json_number_value(json_array_get(loss, 1));
    return c->group >= 0 && c->run >= 0;
}

/* Adds the format of a table to each row of the card that holds in it as well. */
static void extend(const struct kiln_teleport_bench *bench, const struct kiln_teleport_table *known,
                   const struct kiln_teleport_table *other, json_t *had, double *room)
{
    struct compared c = {.bench = bench, .known = known, .other = other};
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(had, "rows"), i, row)
    {
        char why[KILN_FIGURE_WHY];
        if (!find_row(row, &c))
            continue;
        const bool good = holds(&c, room, why);
        printf("- %s, %s at %ux%u, %lld x %lld, %s: %s\n", bench->pairs.groups[c.group].name,
               bench->runs[c.run].name, other->size.width, other->size.height,
               json_integer_value(json_object_get(row, "donors")),
               json_integer_value(json_object_get(row, "uses")), kiln_dtype_names[other->dtype],
               good ? "holds" : why);
        if (!good)
            continue;
        if (!json_object_get(row, "dtypes"))
            json_object_set_new(row, "dtypes", json_copy(json_object_get(had, "dtypes")));
        json_array_append_new(json_object_get(row, "dtypes"),
                              json_string(kiln_dtype_names[other->dtype]));
    }
}

/* Whether a list of the card names the format. */
static bool names_it(const json_t *list, int32_t dtype)
{
    size_t i;
    const json_t *name;
    json_array_foreach(list, i, name)
    {
        if (strcmp(json_string_value(name), kiln_dtype_names[dtype]) == 0)
            return true;
    }
    return false;
}

/* What an earlier command found of further formats at these sizes is forgotten. */
static void forget(const struct kiln_teleport_bench *bench, json_t *had)
{
    size_t i;
    json_t *row;
    for (int t = 0; t < bench->table_count; t++) {
        struct compared c = {.bench = bench, .other = &bench->tables[t]};
        json_array_foreach(json_object_get(had, "rows"), i, row) if (find_row(row, &c))
            json_object_del(row, "dtypes");
    }
}

int kiln_teleport_extend(const struct kiln_teleport_bench *bench, json_t *card,
                         struct kiln_error *err)
{
    json_t *whole, *had;
    double *room = malloc(2 * (bench->pairs.count + 1) * sizeof *room);
    if (!room)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the results");
    int code = kiln_measured_card_read(bench->options.model, &whole, err);
    if (code) {
        free(room);
        return code;
    }
    had = json_object_get(whole, "teleport");
    const char *other = kiln_teleport_differs(had, card);
    if (other)
        code = kiln_fail(err, KILN_CONFIG,
                         KILN_MODEL_CARD " has no rows of teleport with the same \"%s\": measure "
                                         "without --extend first",
                         other);
    else
        forget(bench, had);
    puts("\nrows of " KILN_MODEL_CARD " in further number formats:");
    for (int a = 0; a < bench->table_count && code == 0; a++)
        for (int b = 0; b < bench->table_count; b++) {
            const struct kiln_teleport_table *known = &bench->tables[a], *also = &bench->tables[b];
            /* one of the card's formats is enough to compare with */
            if (known->dtype == bench->options.dtypes[0] &&
                names_it(json_object_get(had, "dtypes"), known->dtype) &&
                !names_it(json_object_get(had, "dtypes"), also->dtype) &&
                known->size.width == also->size.width && known->size.height == also->size.height)
                extend(bench, known, also, had, room);
        }
    free(room);
    if (code == 0 && bench->options.write)
        code = kiln_measured_card_write(bench->options.model, "teleport", had, err);
    json_decref(whole);
    return code;
}
