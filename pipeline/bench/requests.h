/* requests.h - files of prompts and what they ask for, as JSON lines.
 *
 *     {"prompt": "a small red star above a blue ring on grass", "width": 256, "height": 256,
 *      "seed": 7, "asked": {"things": [{"shape": "star", "colour": "red", "size": "small"},
 *      {"shape": "ring", "colour": "blue", "zone": "bottom"}], "relations": [[0, "above", 1]],
 *      "background": ["grass", null, null], "count": true}}
 *
 * scripts/train/judge.py --requests writes them.  What is absent or null is not asked for; the
 * count is, unless "count" is false.  The colours of a scenery are random and never asked for.
 */
#ifndef KILN_JUDGE_REQUESTS_H
#define KILN_JUDGE_REQUESTS_H

#include <jansson.h>
#include <stddef.h>

#include "pipeline/bench/score.h"
#include "schemas/error.h"

#define KILN_REQUESTS_MAX 100000

struct kiln_request {
    char *prompt, *asked_text; /* asked_text: the JSON of "asked", for reports */
    int width, height;         /* default 256 */
    uint64_t seed;             /* default: the position of the line */
    struct kiln_asked asked;
};
struct kiln_requests {
    struct kiln_request *items;
    size_t count;
};

/* Reads at most `limit` lines.  KILN_BAD_INPUT names file and line: invalid JSON, unknown names, a
 * wrong size, more than KILN_ASKED_THINGS_MAX objects. */
int kiln_requests_read(const char *path, const struct kiln_judge_labels *labels, size_t limit,
                       struct kiln_requests *ret, struct kiln_error *err) KILN_MUST_CHECK;
/* Reads an object "asked".  KILN_BAD_INPUT for another form or unknown names. */
int kiln_asked_read(const json_t *value, const struct kiln_judge_labels *labels,
                    struct kiln_asked *ret, struct kiln_error *err) KILN_MUST_CHECK;
void kiln_requests_release(struct kiln_requests *requests);

#endif
