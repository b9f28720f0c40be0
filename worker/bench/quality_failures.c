/* quality_failures.c - writes the pictures that are not all right, to look at; see quality.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "worker/bench/quality.h"
#include "worker/engine/renderer.h"
#include "worker/verbs/verbs.h"

static json_t *seen_json(const struct kiln_judge_labels *labels, const struct kiln_seen *seen)
{
    json_t *things = json_array();
    for (int i = 0; i < seen->count; i++) {
        const struct kiln_seen_thing *thing = &seen->things[i];
        json_array_append_new(things, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "shape",
                                                labels->shapes.names[thing->shape], "colour",
                                                labels->colours.names[thing->colour], "size",
                                                labels->sizes.names[thing->size], "x", thing->x,
                                                "y", thing->y, "score", thing->score));
    }
    return json_pack("{s:o, s:[s, s, s], s:s}", "things", things, "background",
                     labels->backgrounds.names[seen->background],
                     labels->colours.names[seen->first], labels->colours.names[seen->second],
                     "style", labels->styles.names[seen->style]);
}

int kiln_quality_failure(const struct kiln_quality_options *options,
                         const struct kiln_quality_row *row, const struct kiln_judge_labels *labels,
                         const struct kiln_quality_picture *picture, struct kiln_error *err)
{
    char name[128], path[2048];
    snprintf(name, sizeof name, "%s-%04zu-%dx%d-%d-%s.webp", row->list, picture->number,
             picture->width, picture->height, row->steps, kiln_dtype_names[row->dtype]);
    snprintf(path, sizeof path, "%.1800s/%s", options->failures, name);
    int code = kiln_verb_write_picture(path, picture->rgb, picture->width, picture->height, true, err);
    if (code)
        return code;
    json_error_t unused;
    json_t *wrong = json_array();
    for (int i = 0; i < KILN_ATTRIBUTES; i++)
        if (picture->score.right[i] != picture->score.asked[i])
            json_array_append_new(wrong, json_string(kiln_attribute_names[i]));
    json_t *line = json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "file", name, "prompt",
                             picture->prompt, "seed", (json_int_t)picture->request->seed, "wrong",
                             wrong, "asked", json_loads(picture->request->asked_text, 0, &unused),
                             "seen", seen_json(labels, &picture->seen));
    snprintf(path, sizeof path, "%.1800s/failures.jsonl", options->failures);
    FILE *file = fopen(path, "ae"); /* it grows over the rows of the table */
    bool good = file && line && json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(4)) == 0;
    good = good && fputc('\n', file) != EOF;
    good = file && fclose(file) == 0 && good;
    json_decref(line);
    return good ? 0
                : kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s", path,
                            strerror(errno));
}
