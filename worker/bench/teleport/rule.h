/* rule.h - which rows kiln.json gets from what was measured of runs from stored latents.
 *
 * Pure.  A depth of a class is offered at a size if attributes lose at most 0.5 and whole prompts
 * at most 1.5 points, where the standard error counts against it.  How much variety it leaves
 * depends on how many donors there are and how often each is used: a row for each combination that
 * no other one makes superfluous.
 */
#ifndef KILN_TELEPORT_RULE_H
#define KILN_TELEPORT_RULE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/bench/estimate.h"
#include "schemas/error.h"
#include "schemas/job/coarse.h"
#include "schemas/reuse/class.h"
#include "worker/bench/measured/figures.h"

/* Pools of 1, 2, 4 and 8 donors, of which each is used once, twice or eight times. */
#define KILN_TELEPORT_POOLS 4
#define KILN_TELEPORT_USES 3
#define KILN_TELEPORT_DONORS_MAX 8
#define KILN_TELEPORT_USES_MAX 8
static const uint32_t kiln_teleport_donors[KILN_TELEPORT_POOLS] = {1, 2, 4, 8};
static const uint32_t kiln_teleport_uses[KILN_TELEPORT_USES] = {1, 2, 8};

/* By donors and uses.  near: the mean distance of a picture from a donor to the nearest other
 * picture, donors included; spread: the mean distance of the pictures from donors to each other,
 * NaN of one.  Of full runs: the same among as many of them. */
struct kiln_teleport_varied {
    double near[KILN_TELEPORT_POOLS][KILN_TELEPORT_USES];
    double spread[KILN_TELEPORT_POOLS][KILN_TELEPORT_USES];
};

/* donors: [8] low-pass latents (pipeline/bench/detail.h), one behind the other; drawn: [8][8], from
 * each donor in turn. */
void kiln_teleport_vary(const float *donors, const float *drawn, int channels,
                        struct kiln_teleport_varied *ret);
/* full: [8 + 64] of full runs.  Each combination is measured on as many blocks of its size as there
 * are. */
void kiln_teleport_vary_full(const float *full, int channels, struct kiln_teleport_varied *ret);

/* One class, depth and size. */
struct kiln_teleport_finding {
    enum kiln_reuse_class class;
    uint32_t depth;
    struct kiln_picture_size size;
    size_t pairs;
    double asked, pictures;                 /* how many attributes and pictures there were */
    const char *dtype;                      /* in which it was measured */
    struct kiln_estimate attributes, whole; /* differences to full runs, 0..1; below 0 is a loss */
    bool with_lora;
    struct kiln_estimate style; /* likewise of pictures in the LoRA's style; NaN: not known */
    struct kiln_estimate near[KILN_TELEPORT_POOLS][KILN_TELEPORT_USES]; /* shares of full runs' */
    double change[2]; /* bounds of what the first step of a right run changes; NaN: not known */
};

#define KILN_TELEPORT_PAIRS_MIN 30 /* fewer tell nothing */

/* The level of variety that a value reaches (rule.c); below all of them it is the last. */
int kiln_teleport_level(double variety);

/* Whether a depth is as good as a full run; why: what is not, "" if it is.  With a LoRA its style
 * must be known, and must not be lost. */
bool kiln_teleport_holds(const struct kiln_teleport_finding *found, char why[KILN_FIGURE_WHY]);

/* The lists "rows" and "not_offered" of kiln.json's "teleport" (schemas/model.md).  In a row one
 * standard error is taken off variety and added to losses.  Findings of one class, depth and size
 * are of several number formats: one that does not hold in each is not offered, and a row has the
 * worst of them.  KILN_FULL for more rows than a card may have. */
int kiln_teleport_rows(const struct kiln_teleport_finding *found, size_t count, json_t **ret_rows,
                       json_t **ret_not_offered, struct kiln_error *err) KILN_MUST_CHECK;

#endif
