/* memory.c - queues work on the device, and makes do when memory is short.
 *
 * Work that lacks memory is queued again after the graphs have been freed and other work has ended.
 * A group that still does not fit is split into smaller ones.  The size of a single picture is
 * remembered: pictures of that size run without graphs and without work beside them from then on.
 */
#include <stdarg.h>
#include <stdio.h>

#include "pipeline/engine/parts.h"

void kiln_run_note(const struct kiln_run *r, const char *fmt, ...)
{
    char *text = r->e->note;
    size_t size = sizeof r->e->note;
    const int factor = r->e->config.vae.factor;
    int used = snprintf(text, size, "%d x %d: ", (int)r->phase->width * factor,
                        (int)r->phase->height * factor);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + used, size - (size_t)used, fmt, args);
    va_end(args);
}

int64_t kiln_run_pixels(const struct kiln_run *r)
{
    return r->phase->height * r->phase->width;
}

bool kiln_memory_is_tight(const struct kiln_run *r)
{
    return r->e->tight_pixels != 0 && kiln_run_pixels(r) >= r->e->tight_pixels;
}

void kiln_memory_release(struct kiln_run *r, bool all)
{
    struct kt_scope *s = kt_scope_new(r->e->device);
    kiln_steps_drain(r);
    kt_wait(s); /* graphs of other shapes may be in use */
    if (all)
        kiln_graph_cache_clear(r->e->graphs);
    else
        kiln_graph_cache_drop_graphs(r->e->graphs);
    kt_device_trim(r->e->device);
    kt_scope_free(s);
}

static int try_once(struct kiln_run *r, const struct kiln_group *group, bool side, kiln_work_fn *fn,
                    void *arg, struct kiln_error *err)
{
    struct kt_scope *base = kt_scope_new(r->e->device);
    struct kt_scope *s = side ? kt_scope_side(base) : kt_scope_child(base);
    int piece = kt_clock_begin(r->e->clock, side);
    fn(r, s, group, arg);
    kt_clock_end(r->e->clock, piece);
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    kt_scope_free(base);
    return code;
}

int kiln_memory_try(struct kiln_run *r, const struct kiln_group *group, bool side, kiln_work_fn *fn,
                    void *arg, struct kiln_error *err)
{
    int code = try_once(r, group, side, fn, arg, err);
    if (code != KILN_NO_MEMORY)
        return code;
    if (group->count == 1 && !kiln_memory_is_tight(r)) {
        r->e->tight_pixels = kiln_run_pixels(r);
        kiln_run_note(r,
                      "pictures of this size and larger are rendered without graphs and decoded "
                      "with nothing beside them: %s",
                      err->text);
    }
    kiln_memory_release(r, false);
    return kiln_group_alive(group) ? try_once(r, group, side, fn, arg, err) : 0;
}

void kiln_memory_abandon(struct kiln_run *r, const struct kiln_group *group,
                         const struct kiln_error *err)
{
    if (err->code != KILN_NO_MEMORY || group->count == 1) {
        kiln_group_end(group, err);
        return;
    }
    kiln_run_note(r, "fewer than %d such pictures are rendered together from now on: %s",
                  group->count, err->text);
    kiln_memory_release(r, true);
    kiln_group_split(r, group);
}

bool kiln_memory_try_group(struct kiln_run *r, const struct kiln_group *group, kiln_work_fn *fn,
                           void *arg)
{
    struct kiln_error err;
    if (kiln_memory_try(r, group, false, fn, arg, &err) == 0)
        return true;
    kiln_memory_abandon(r, group, &err);
    return false;
}

/* --- passes of the VAE ------------------------------------------------------------------------ */

/* Rows of a strip for pictures of this size; 0: decoded in one piece. */
static int strip_rows(const struct kiln_run *r)
{
    if (r->e->strip_pixels != 0 && kiln_run_pixels(r) >= r->e->strip_pixels)
        return r->e->strip_rows;
    return r->batch->width * r->batch->height > KILN_VAE_WHOLE_PIXELS ? KILN_VAE_STRIP_ROWS : 0;
}

/* The next lower height to try when memory is short; 0: none. */
static int fewer_rows(int rows)
{
    if (rows == 0)
        return KILN_VAE_STRIP_ROWS;
    return rows > KILN_VAE_STRIP_ROWS_MIN ? rows / 2 : 0;
}

int kiln_memory_try_strips(struct kiln_run *r, struct kiln_item *item, bool side, kiln_work_fn *fn,
                           struct kiln_error *err)
{
    struct kiln_engine *e = r->e;
    const struct kiln_group one = {.items = {item}, .count = 1};
    int rows = strip_rows(r);
    int code = kiln_memory_try(r, &one, side, fn, &rows, err);
    while (code == KILN_NO_MEMORY && !item->ended && (rows = fewer_rows(rows)) != 0) {
        e->strip_pixels = kiln_run_pixels(r);
        e->strip_rows = rows;
        kiln_run_note(
            r, "pictures of this size and larger pass through the VAE in strips of %d rows: %s",
            rows, err->text);
        code = kiln_memory_try(r, &one, false, fn, &rows, err);
    }
    return code;
}
