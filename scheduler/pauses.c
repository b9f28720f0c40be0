/* pauses.c - see pauses.h. */
#include "scheduler/pauses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/room.h"
#include "schemas/text/utc.h"
#include "schemas/text/utf8.h"

#define PART_MAX (KILN_LORA_SET_MAX + 1)

/* --- the set --------------------------------------------------------------------------------- */
int kiln_pauses_keep(void *arg, const struct kiln_pause *pause, struct kiln_error *err)
{
    struct kiln_pauses *pauses = arg;
    if (!pause->held)
        return 0;
    struct kiln_pause *at = kiln_room(pauses->at, pauses->count, &pauses->room, sizeof(*at));
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the pauses");
    pauses->at = at;
    pauses->at[pauses->count++] = *pause;
    return 0;
}

void kiln_pauses_release(struct kiln_pauses *pauses)
{
    free(pauses->at);
    *pauses = (struct kiln_pauses){0};
}

/* Both match the same jobs. */
static bool same(const struct kiln_pause *a, const struct kiln_pause *b)
{
    return a->scope == b->scope && a->batch_id == b->batch_id && strcmp(a->name, b->name) == 0;
}

bool kiln_pauses_within(const struct kiln_pauses *a, const struct kiln_pauses *b)
{
    for (size_t i = 0; i < a->count; i++) {
        size_t k = 0;
        while (k < b->count && !same(&a->at[i], &b->at[k]))
            k++;
        if (k == b->count)
            return false;
    }
    return true;
}

bool kiln_pauses_equal(const struct kiln_pauses *a, const struct kiln_pauses *b)
{
    return a->count == b->count && kiln_pauses_within(a, b);
}

static bool matches_job(const struct kiln_pause *pause, const struct kiln_policy_job *job)
{
    switch (pause->scope) {
    case KILN_SCOPE_ALL:
        return true;
    case KILN_SCOPE_BACKFILL:
        return job->priority <= KILN_PRIORITY_BACKFILL;
    case KILN_SCOPE_ONE_BACKFILL:
    case KILN_SCOPE_WINDOW:
        return pause->batch_id != 0 && pause->batch_id == job->batch_id;
    case KILN_SCOPE_TENANT:
    case KILN_SCOPE_QUOTA:
        return strcmp(pause->name, job->tenant) == 0;
    case KILN_SCOPE_GROUP:
        return kiln_group_matches(pause->name, job);
    case KILN_SCOPE_COUNT:
        break;
    }
    return false;
}

const struct kiln_pause *kiln_pauses_find(const struct kiln_pauses *pauses,
                                          const struct kiln_policy_job *job)
{
    const struct kiln_pause *found = NULL;
    for (size_t i = 0; i < pauses->count; i++)
        if ((!found || pauses->at[i].scope < found->scope) && matches_job(&pauses->at[i], job))
            found = &pauses->at[i];
    return found;
}

/* --- as a sentence --------------------------------------------------------------------------- */
static void what_is_paused(const struct kiln_pause *pause, char *out, size_t size)
{
    static const char *const words[KILN_SCOPE_COUNT] = {
        [KILN_SCOPE_ALL] = "everything is paused",
        [KILN_SCOPE_BACKFILL] = "all backfill is paused",
        [KILN_SCOPE_ONE_BACKFILL] = "backfill %s is paused",
        [KILN_SCOPE_TENANT] = "tenant %s is paused",
        [KILN_SCOPE_GROUP] = "group %s is paused",
        [KILN_SCOPE_WINDOW] = "backfill %s is outside its window",
        [KILN_SCOPE_QUOTA] = "tenant %s has used up its daily quota"};
    const char *text = words[pause->scope], *name = strstr(text, "%s");
    if (name)
        snprintf(out, size, "%.*s%s%s", (int)(name - text), text, pause->name, name + 2);
    else
        snprintf(out, size, "%s", text);
}

void kiln_pause_text(const struct kiln_pause *pause, char *out, size_t size)
{
    static const char *const resume[KILN_SCOPE_COUNT] = {
        [KILN_SCOPE_ALL] = "kiln resume --all",
        [KILN_SCOPE_BACKFILL] = "kiln resume --backfill",
        [KILN_SCOPE_ONE_BACKFILL] = "kiln backfill resume ",
        [KILN_SCOPE_TENANT] = "kiln resume --tenant ",
        [KILN_SCOPE_GROUP] = "kiln resume --group "};
    char what[KILN_PAUSE_NAME_MAX + 64], at[32], until[32];
    what_is_paused(pause, what, sizeof(what));
    kiln_short_time(pause->at_ms, at, sizeof(at));
    kiln_short_time(pause->until_ms, until, sizeof(until));
    if (resume[pause->scope])
        snprintf(out, size, "%s since %s by %s%s%s; `%s%s` resumes it", what, at, pause->who,
                 pause->reason[0] ? ": " : "", pause->reason, resume[pause->scope], pause->name);
    else
        snprintf(out, size, "%s (%s)%s%s", what, pause->reason,
                 pause->until_ms ? "; it resumes at " : "", pause->until_ms ? until : "");
}

/* --- groups ---------------------------------------------------------------------------------- */
struct group {
    char model[KILN_NAME_MAX + 1], set[PART_MAX], mode[KILN_MODE_MAX];
    unsigned width, height, steps; /* 0: any */
    bool any_model, any_set, any_mode;
};

/* The part up to the next '/', which *at moves behind; "*" when there is none. */
static bool take_part(const char **at, char out[PART_MAX])
{
    size_t len = strcspn(*at, "/");
    if (**at == '\0')
        return snprintf(out, PART_MAX, "*") > 0;
    if (len == 0 || len >= PART_MAX)
        return false;
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len + ((*at)[len] == '/');
    return true;
}

static bool read_number(const char *text, const char *after, unsigned max, unsigned *ret)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *ret = (unsigned)value;
    return text[0] >= '1' && text[0] <= '9' && end == after && value <= max;
}

static bool read_group_mode(const char *text, struct group *ret)
{
    struct kiln_mode mode;
    ret->any_mode = strcmp(text, "*") == 0;
    if (ret->any_mode || strcmp(text, "exact") == 0)
        return true;
    kiln_utf8_copy(ret->mode, sizeof(ret->mode), text);
    return *text && kiln_mode_parse(text, &mode);
}

static bool parse_group(const char *text, struct group *ret)
{
    char size[PART_MAX], steps[PART_MAX], mode[PART_MAX];
    const size_t first = strcspn(text, "/"); /* a mode may contain an '@' */
    const char *at = memchr(text, '@', first);
    *ret = (struct group){.any_model = !at};
    if (at) {
        if (at - text > KILN_NAME_MAX)
            return false;
        memcpy(ret->model, text, (size_t)(at - text));
        text = at + 1;
    }
    if (*text == '\0' || !take_part(&text, size) || !take_part(&text, steps) ||
        !take_part(&text, ret->set) || !take_part(&text, mode) || *text ||
        !read_group_mode(mode, ret))
        return false;
    const char *times = strchr(size, 'x');
    if (strcmp(size, "*") != 0 &&
        (!times || !read_number(size, times, KILN_SIDE_MAX, &ret->width) ||
         !read_number(times + 1, size + strlen(size), KILN_SIDE_MAX, &ret->height)))
        return false;
    if (strcmp(steps, "*") != 0 &&
        !read_number(steps, steps + strlen(steps), KILN_STEPS_MAX, &ret->steps))
        return false;
    ret->any_set = strcmp(ret->set, "*") == 0;
    return true;
}

static void write_group(const struct group *group, char *out, size_t size)
{
    char sides[32] = "*", steps[16] = "*";
    if (group->width)
        snprintf(sides, sizeof(sides), "%ux%u", group->width, group->height);
    if (group->steps)
        snprintf(steps, sizeof(steps), "%u", group->steps);
    snprintf(out, size, "%s%s%s/%s/%s%s%s", group->model, group->model[0] ? "@" : "", sides, steps,
             group->any_set ? "*" : group->set, group->any_mode ? "" : "/",
             group->any_mode  ? ""
             : group->mode[0] ? group->mode
                              : "exact");
}

int kiln_group_name(const char *text, char *out, size_t size, struct kiln_error *err)
{
    struct group group;
    if (!parse_group(text, &group))
        return kiln_fail(
            err, KILN_BAD_INPUT,
            "'%.80s' is not a group; write SIZE/STEPS/LORAS or SIZE/STEPS/LORAS/MODE as "
            "`kiln status` shows it (1024x1024/8/none), * for any",
            text);
    write_group(&group, out, size);
    return 0;
}

void kiln_group_of(const struct kiln_policy_job *job, char *out, size_t size)
{
    struct group group = {.width = job->width, .height = job->height, .steps = job->steps};
    snprintf(group.model, sizeof(group.model), "%s", job->model);
    snprintf(group.set, sizeof(group.set), "%s", job->lora_set[0] ? job->lora_set : "none");
    group.any_mode = !job->mode || !job->mode[0];
    snprintf(group.mode, sizeof(group.mode), "%s", group.any_mode ? "" : job->mode);
    write_group(&group, out, size);
}

bool kiln_group_matches(const char *name, const struct kiln_policy_job *job)
{
    struct group group;
    if (!parse_group(name, &group))
        return false;
    const char *set = job->lora_set[0] ? job->lora_set : "none";
    return (group.any_model || strcmp(group.model, job->model) == 0) &&
           (group.width == 0 || (group.width == job->width && group.height == job->height)) &&
           (group.steps == 0 || group.steps == job->steps) &&
           (group.any_set || kiln_lora_set_meant(group.set, set)) &&
           (group.any_mode || strcmp(group.mode, job->mode ? job->mode : "") == 0);
}
