/* slots.c - banks, merged copies, and the handles that the model reads; see slots.h.
 *
 * A set is loaded in three steps.  First memory is allocated (bank, copies).  Then contents are
 * written in the device's queue, so that a running picture still reads the old ones.  Last, handles
 * are set, which cannot fail.
 */
#include "pipeline/lora/slots.h"

#include <stdlib.h>

#include "pipeline/model/linear.h"
#include "pipeline/torch/low_rank.h"

#define CLASSES 7 /* 16, 32, 48, 64, 128, 256, 512 */
/* Columns of room behind a weight's rows for each of its modules.  Higher ranks are added after the
 * product, which makes a step a tenth slower and more. */
#define ROOM 64

struct pair {
    kt down, up; /* views of the bank */
    kt codes;    /* down, quantised, for a quantised weight; else NULL */
    kt both;     /* the weight with up behind its rows; NULL without room */
};

/* The memory of one rank class. */
struct bank {
    struct kt_scope *scope; /* NULL: not made */
    int64_t rank;
    kt bytes;
    struct pair *pairs; /* by place */
};

/* A matrix of the model. */
struct matrix {
    kt pristine;
    kt plain;  /* a quantised one before quantising; NULL: not loaded */
    kt copy;   /* NULL: not made */
    bool same; /* the copy equals the pristine matrix */
};

struct kiln_lora_slots {
    int device;
    struct kiln_lora_plain plain;   /* load NULL: there is no such source */
    struct kiln_lora_layout layout; /* only for its places, which all layouts share */
    struct matrix *matrices;        /* by place */
    struct kt_scope *scope;         /* of copies and plain matrices */
    bool room_made, moved;          /* make_room has run; it has moved weights */
    struct bank banks[CLASSES];
};

static bool quantised(const struct matrix *m)
{
    return kt_dtype_of(m->pristine) == KT_E4M3;
}

/* --- making and freeing ----------------------------------------------------------------------- */

struct kiln_lora_slots *kiln_lora_slots_new(const struct kiln_param_table *params, int device,
                                            const struct kiln_lora_plain *plain)
{
    struct kiln_lora_slots *l = calloc(1, sizeof *l);
    struct kiln_error err;
    if (!l)
        return NULL;
    l->device = device;
    if (plain)
        l->plain = *plain;
    l->scope = kt_scope_new(device);
    l->matrices = calloc(params->count + 1, sizeof *l->matrices);
    int code = kiln_lora_layout_init(&l->layout, params, 16, KT_F32, &err);
    for (size_t i = 0; !code && l->matrices && i < l->layout.count; i++)
        l->matrices[i].pristine = *l->layout.places[i].slot;
    if (code || !l->matrices || kt_scope_check(l->scope, &err)) {
        kiln_lora_slots_free(l);
        return NULL;
    }
    return l;
}

void kiln_lora_slots_free(struct kiln_lora_slots *l)
{
    if (!l)
        return;
    kiln_lora_slots_clear(l);
    for (size_t i = 0; i < CLASSES; i++) {
        kt_scope_free(l->banks[i].scope);
        free(l->banks[i].pairs);
    }
    free(l->matrices);
    kt_scope_free(l->scope);
    kiln_lora_layout_release(&l->layout);
    free(l);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Moves weights to memory with room, once.  Without memory a weight stays without room. */
static void make_room(struct kiln_lora_slots *l)
{
    if (l->room_made || l->device == KT_CPU)
        return;
    struct kt_scope *s = kt_scope_new(l->device);
    for (size_t i = 0; i < l->layout.count; i++) {
        const struct kiln_lora_place *p = &l->layout.places[i];
        kt weight = l->matrices[i].pristine;
        if (!p->layer || kt_dtype_of(weight) == KT_F32)
            continue;
        kt_make_room(s, weight,
                     kiln_linear_room(p->rank / l->layout.rank * ROOM, quantised(&l->matrices[i])));
        l->moved = l->moved || kt_room(weight) > 0;
    }
    kt_scope_free(s);
    kt_device_trim(l->device); /* the old memory */
    l->room_made = true;
}

/* The bank of the layout's class, with pairs as views of its bytes. */
static int bank_of(struct kiln_lora_slots *l, const struct kiln_lora_layout *layout,
                   struct bank **ret, struct kiln_error *err)
{
    size_t at = 0;
    while (l->banks[at].scope && l->banks[at].rank != layout->rank)
        at++;
    *ret = &l->banks[at];
    if ((*ret)->scope)
        return 0;
    struct bank b = {.rank = layout->rank, .scope = kt_scope_new(l->device)};
    b.pairs = calloc(layout->count + 1, sizeof *b.pairs);
    b.bytes = kt_zeros(b.scope, KT_U8, 1, (int64_t[]){(int64_t)layout->bytes});
    for (size_t i = 0; b.pairs && i < layout->count; i++) {
        const struct kiln_lora_place *p = &layout->places[i];
        struct pair *pair = &b.pairs[i];
        pair->down = kt_view_bytes(b.scope, b.bytes, p->down, layout->dtype, 2,
                                   (int64_t[]){p->rank, p->cols});
        pair->up =
            kt_view_bytes(b.scope, b.bytes, p->up, layout->dtype, 2, (int64_t[]){p->rows, p->rank});
        if (p->layer && quantised(&l->matrices[i]))
            pair->codes = kt_quantise_rows(b.scope, pair->down);
    }
    int code = b.pairs ? kt_scope_check(b.scope, err)
                       : kiln_fail(err, KILN_NO_MEMORY, "no memory for the slots of LoRAs");
    if (code) {
        kt_scope_free(b.scope);
        free(b.pairs);
        return code;
    }
    **ret = b;
    return 0;
}

/* Whether a matrix is replaced by its copy. */
static bool copied(const struct kiln_lora_slots *l, size_t place, bool merged)
{
    return merged || !l->layout.places[place].layer;
}

/* Loads the plain matrices behind quantised weights, all or none. */
static int load_plain(struct kiln_lora_slots *l, struct kiln_error *err)
{
    const size_t modules = l->layout.params->count;
    bool missing = false;
    for (size_t i = 0; i < l->layout.count; i++)
        missing = missing || (quantised(&l->matrices[i]) && !l->matrices[i].plain);
    if (!missing)
        return 0;
    struct kt_scope *s = kt_scope_new(l->device);
    kt *matrices = calloc(modules + 1, sizeof *matrices);
    int code = s && matrices ? l->plain.load(l->plain.arg, s, matrices, err)
                             : kiln_fail(err, KILN_NO_MEMORY, "no memory for plain weights");
    for (size_t i = 0; !code && i < modules; i++) {
        struct matrix *m = &l->matrices[l->layout.place_of[i]];
        if (quantised(m) && !m->plain)
            m->plain = kt_keep(l->scope, matrices[i]);
    }
    free(matrices);
    kt_scope_free(s);
    return code;
}

/* Makes all missing copies, or none without memory. */
static int make_copies(struct kiln_lora_slots *l, bool merged, struct kiln_error *err)
{
    int code = merged ? load_plain(l, err) : 0;
    if (code)
        return code;
    struct kt_scope *s = kt_scope_new(l->device);
    kt *made = calloc(l->layout.count + 1, sizeof *made);
    for (size_t i = 0; made && i < l->layout.count; i++)
        if (copied(l, i, merged) && !l->matrices[i].copy)
            made[i] = kt_copy(s, l->matrices[i].pristine);
    code = made ? kt_scope_check(s, err)
                : kiln_fail(err, KILN_NO_MEMORY, "no memory for the list of merged weights");
    for (size_t i = 0; i < l->layout.count; i++) {
        struct matrix *m = &l->matrices[i];
        if (!code && made[i]) {
            m->copy = kt_keep(l->scope, made[i]);
            m->same = true;
        } else if (code && !m->copy) { /* nor is its plain matrix needed */
            kt_drop(l->scope, m->plain);
            m->plain = NULL;
        }
    }
    free(made);
    kt_scope_free(s);
    if (code)
        kt_device_trim(l->device);
    return code;
}

size_t kiln_lora_slots_missing(const struct kiln_lora_slots *l)
{
    size_t bytes = 0;
    for (size_t i = 0; i < l->layout.count; i++) {
        const struct matrix *m = &l->matrices[i];
        const struct kiln_lora_place *p = &l->layout.places[i];
        size_t values = (size_t)(p->rows * p->cols);
        size_t size = quantised(m) ? 1 : kt_dtype_of(m->pristine) == KT_F32 ? 4 : 2;
        if (quantised(m) && !l->plain.load)
            return SIZE_MAX;
        bytes += m->copy ? 0 : values * size;
        bytes += quantised(m) && !m->plain ? values * 2 : 0;
    }
    return bytes;
}

/* --- contents and handles --------------------------------------------------------------------- */

static int write_set(struct kiln_lora_slots *l, const struct kiln_lora_image *image,
                     const struct bank *b, bool merged, struct kiln_error *err)
{
    struct kt_scope *s = kt_scope_new(l->device);
    kt_staging_copy(s, b->bytes, image->memory);
    for (size_t i = 0; i < l->layout.count; i++) {
        struct matrix *m = &l->matrices[i];
        const struct pair *pair = &b->pairs[i];
        const bool touched = image->touched[i];
        if (copied(l, i, merged)) {
            /* An untouched pair is zero, so merging it restores a quantised copy. */
            if (touched || (quantised(m) && !m->same))
                kt_merge_low_rank(s, m->copy, quantised(m) ? m->plain : m->pristine, pair->up,
                                  pair->down);
            else if (!m->same)
                kt_copy_into(s, m->copy, m->pristine);
            m->same = !touched;
        } else if (pair->both) {
            kt_put_beside(s, pair->both, pair->codes, pair->up, pair->down);
        } else if (pair->codes) {
            kt_copy_into(s, pair->codes, pair->down);
        }
    }
    int code = kt_scope_check(s, err);
    kt_scope_free(s);
    return code;
}

/* bank NULL: no set. */
static void set_handles(struct kiln_lora_slots *l, const struct bank *b, bool merged)
{
    for (size_t i = 0; i < l->layout.count; i++) {
        const struct kiln_lora_place *p = &l->layout.places[i];
        const struct pair *pair = b ? &b->pairs[i] : NULL;
        bool beside = pair && !copied(l, i, merged);
        *p->slot = pair && !beside ? l->matrices[i].copy : l->matrices[i].pristine;
        if (p->layer) {
            p->layer->down = !beside ? NULL : pair->codes ? pair->codes : pair->down;
            p->layer->up = beside ? pair->up : NULL;
            p->layer->both = beside ? pair->both : NULL;
        }
    }
}

int kiln_lora_slots_load(struct kiln_lora_slots *l, const struct kiln_lora_image *image,
                         bool merged, struct kiln_error *err)
{
    struct bank *b;
    int code = bank_of(l, &image->layout, &b, err);
    if (!code && !merged) {
        make_room(l);
        for (size_t i = 0; i < l->layout.count; i++) {
            const struct kiln_lora_place *p = &image->layout.places[i];
            const kt weight = l->matrices[i].pristine;
            if (p->layer && !b->pairs[i].both && p->rank <= kt_room(weight))
                b->pairs[i].both = kt_widened(b->scope, weight, p->rank);
        }
        code = kt_scope_check(b->scope, err);
    }
    code = code ? code : make_copies(l, merged, err);
    code = code ? code : write_set(l, image, b, merged, err);
    if (code)
        kiln_lora_slots_clear(l);
    else
        set_handles(l, b, merged);
    return code;
}

void kiln_lora_slots_clear(struct kiln_lora_slots *l)
{
    if (l->matrices)
        set_handles(l, NULL, false);
}

bool kiln_lora_slots_moved(const struct kiln_lora_slots *l)
{
    return l->moved;
}
