/* rate.c - histories of counts; samples closer together than the ring can hold are left out.
 */
#include "scheduler/cli/fleet/watch/rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"

#define APART_S (KILN_RATE_WINDOW_S / (KILN_RATE_SAMPLES - 1))

static struct kiln_rate_row *find(const struct kiln_rates *rates, const char *name)
{
    for (size_t i = 0; i < rates->count; i++)
        if (strcmp(rates->rows[i].name, name) == 0)
            return &rates->rows[i];
    return NULL;
}

static struct kiln_rate_row *add(struct kiln_rates *rates, const char *name, double now_s)
{
    for (size_t i = 0; i < rates->count;) /* forgets what was not seen for long */
        if (now_s - rates->rows[i].seen_s > 2 * KILN_RATE_WINDOW_S)
            rates->rows[i] = rates->rows[--rates->count];
        else
            i++;
    struct kiln_rate_row *rows = kiln_room(rates->rows, rates->count, &rates->room, sizeof *rows);
    if (!rows)
        return NULL;
    rates->rows = rows;
    struct kiln_rate_row *row = &rates->rows[rates->count++];
    memset(row, 0, sizeof *row);
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

void kiln_rate_note(struct kiln_rates *rates, const char *name, uint64_t value, double now_s)
{
    struct kiln_rate_row *row = find(rates, name);
    if (!row && !(row = add(rates, name, now_s)))
        return;
    if (value < row->value)
        row->count = 0;
    row->value = value;
    row->seen_s = now_s;
    uint32_t last = (row->count + KILN_RATE_SAMPLES - 1) % KILN_RATE_SAMPLES;
    if (row->count > 0 && now_s - row->sample[last].at_s < APART_S)
        return;
    row->sample[row->count % KILN_RATE_SAMPLES].at_s = now_s;
    row->sample[row->count++ % KILN_RATE_SAMPLES].value = value;
}

double kiln_rate_per_min(const struct kiln_rates *rates, const char *name, double now_s)
{
    const struct kiln_rate_row *row = find(rates, name);
    uint32_t kept = !row ? 0 : row->count < KILN_RATE_SAMPLES ? row->count : KILN_RATE_SAMPLES;
    for (uint32_t i = kept; i > 0; i--) { /* the oldest first */
        uint32_t at = (row->count - i) % KILN_RATE_SAMPLES;
        double seconds = now_s - row->sample[at].at_s;
        if (seconds > KILN_RATE_WINDOW_S + APART_S)
            continue;
        return seconds > 0 ? (double)(row->value - row->sample[at].value) * 60 / seconds : 0;
    }
    return 0;
}

void kiln_rate_release(struct kiln_rates *rates)
{
    free(rates->rows);
    *rates = (struct kiln_rates){0};
}
