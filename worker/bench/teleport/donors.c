/* donors.c - the donors of an item, of which the nearest to its own are combined; see teleport.h.
 */
#include <stdlib.h>

#include "worker/bench/teleport/teleport.h"

void kiln_teleport_donors_sort(struct kiln_teleport_donors *donors, int item, int channels)
{
    const float *first = kiln_teleport_donor_low(donors, 0, item);
    double far[KILN_TELEPORT_CHOICE];
    int *order = donors->order[item];
    for (int which = 0; which < KILN_TELEPORT_CHOICE; which++) {
        const double distance =
            kiln_low_distance(first, kiln_teleport_donor_low(donors, which, item), channels);
        int at = which;
        for (; at > 1 && far[at - 1] > distance; at--) { /* the first one stays in front */
            far[at] = far[at - 1];
            order[at] = order[at - 1];
        }
        far[at] = distance;
        order[at] = which;
    }
}

double kiln_teleport_donors_apart(const struct kiln_teleport_donors *donors, int item, int count,
                                  int channels)
{
    const int *order = donors->order[item];
    double most = 0;
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++) {
            const double distance =
                kiln_low_distance(kiln_teleport_donor_low(donors, order[a], item),
                                  kiln_teleport_donor_low(donors, order[b], item), channels);
            most = distance > most ? distance : most;
        }
    return most;
}

double kiln_teleport_donors_near(const struct kiln_teleport_donors *donors, int item, int count,
                                 int channels, const float *low)
{
    double least = kiln_low_distance(low, kiln_teleport_donor_low(donors, 0, item), channels);
    for (int i = 1; i < count; i++) {
        const double distance = kiln_low_distance(
            low, kiln_teleport_donor_low(donors, donors->order[item][i], item), channels);
        least = distance < least ? distance : least;
    }
    return least;
}

void kiln_teleport_donors_clear(struct kiln_teleport_donors *donors)
{
    for (int which = 0; which < KILN_TELEPORT_CHOICE; which++)
        for (int i = 0; i < KILN_PICTURES_BATCH; i++) {
            free(donors->latents[which][i]);
            donors->latents[which][i] = NULL;
        }
}
