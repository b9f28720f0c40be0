/* weights.c - see weights.h. */
#include "scheduler/cache/weights.h"

#define BOTH_MS 60000 /* weights render at the same time while both make donors */

int kiln_donor_weights_now(const struct kiln_donor_weights *weights)
{
    int count = 0;
    while (count < weights->count &&
           weights->at[0].created_ms - weights->at[count].created_ms <= BOTH_MS)
        count++;
    return count;
}

bool kiln_donor_weights_have(const struct kiln_donor_weights *weights, uint64_t hash)
{
    const int now = kiln_donor_weights_now(weights);
    int i = 0;
    while (i < now && weights->at[i].hash != hash)
        i++;
    return i < now;
}

bool kiln_donor_weights_note(struct kiln_donor_weights *weights, uint64_t hash, int64_t created_ms)
{
    const bool known = kiln_donor_weights_have(weights, hash);
    int i = 0;
    while (i < weights->count && weights->at[i].hash != hash)
        i++;
    if (i < weights->count && created_ms <= weights->at[i].created_ms)
        return false;
    if (i == KILN_DONOR_WEIGHTS_MAX && created_ms <= weights->at[--i].created_ms)
        return false;
    if (i == weights->count)
        weights->count++;
    for (; i > 0 && weights->at[i - 1].created_ms <= created_ms; i--)
        weights->at[i] = weights->at[i - 1];
    weights->at[i].hash = hash;
    weights->at[i].created_ms = created_ms;
    return !known && kiln_donor_weights_have(weights, hash);
}
