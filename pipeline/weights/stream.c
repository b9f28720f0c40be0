/* stream.c - load_ring.h with tensors as its target; see stream.h. */
#include "pipeline/weights/stream.h"

#include <stdlib.h>

#include "pipeline/torch/load.h"
#include "pipeline/weights/load_ring.h"
#include "pipeline/weights/loading.h"

struct kiln_weights_stream {
    const struct kiln_st *st;
    struct kiln_ring *ring;
    struct kt_upload *upload;
    struct kt_scope *scope; /* of the flags */
    kt flags;               /* by tensor of st: 1 if it is not finite */
    const char *path;       /* of what is being read */
    uint64_t bytes, of;     /* read of all of st */
};

/* --- the ring's sink -------------------------------------------------------------------------- */

static void *sink_buffer(void *ctx, int slot)
{
    const struct kiln_weights_stream *ws = ctx;
    return kt_upload_buffer(ws->upload, slot);
}

static void sink_send(void *ctx, int slot, uint64_t at, size_t size)
{
    struct kiln_weights_stream *ws = ctx;
    kt_upload_send(ws->upload, slot, at, size);
    ws->bytes += size;
    kiln_loading_note(ws->path, ws->bytes, ws->of);
}

static void sink_wait(void *ctx, int slot)
{
    const struct kiln_weights_stream *ws = ctx;
    kt_upload_wait(ws->upload, slot);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void stream_free(struct kiln_weights_stream *ws)
{
    kiln_ring_free(ws->ring);
    kt_upload_free(ws->upload);
    kt_scope_free(ws->scope);
    free(ws);
}

int kiln_weights_stream_open(const struct kiln_st *st, int device, struct kiln_weights_stream **ret,
                             struct kiln_error *err)
{
    struct kiln_weights_stream *ws = calloc(1, sizeof *ws);
    if (!ws)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read weights");
    ws->st = st;
    ws->of = kiln_st_total(st);
    ws->scope = kt_scope_new(device);
    ws->flags = kt_zeros(ws->scope, KT_U8, 1, (int64_t[]){(int64_t)kiln_st_count(st)});
    ws->upload = kt_upload_new(device, KILN_RING_SLOTS, KILN_RING_CHUNK);
    const struct kiln_ring_sink sink = {
        .ctx = ws, .buffer = sink_buffer, .send = sink_send, .wait = sink_wait};
    int code = kt_scope_check(ws->scope, err);
    if (!code && !ws->upload)
        code = kiln_fail(err, KILN_NO_MEMORY, "no memory for %d buffers of %zu MiB to read weights",
                         KILN_RING_SLOTS, KILN_RING_CHUNK >> 20);
    code = code ? code : kiln_ring_new(&sink, &ws->ring, err);
    if (code)
        stream_free(ws);
    else
        *ret = ws;
    return code;
}

/* --- loading ---------------------------------------------------------------------------------- */

kt kiln_weights_stream_load(struct kiln_weights_stream *ws, struct kt_scope *scope, size_t index,
                            enum kt_dtype from, enum kt_dtype to, struct kiln_error *err)
{
    const struct kiln_st_tensor *t = kiln_st_at(ws->st, index);
    const char *path;
    uint64_t offset;
    int fd;
    if (!kiln_st_source(ws->st, t, &fd, &offset, &path)) {
        kiln_fail(err, KILN_INTERNAL, "tensor %s does not lie in a file", t->name);
        return NULL;
    }
    ws->path = path;
    kiln_loading_note(path, ws->bytes, ws->of);
    struct kt_scope *inner = kt_scope_child(scope);
    kt raw = kt_upload_target(ws->upload, inner, from, (int)t->ndim, t->shape);
    kt loaded = NULL;
    if (raw && kiln_ring_load(ws->ring, fd, offset, t->size, path, err) == 0) {
        kt_note_not_finite(inner, raw, ws->flags, (int64_t)index);
        loaded = kt_keep(scope, from == to ? raw : kt_to(inner, raw, to));
    }
    kt_scope_free(inner);
    return loaded;
}

/* --- closing ------------------------------------------------------------------------------ */

/* Names the first tensor whose flag is up. */
static int check_flags(struct kiln_weights_stream *ws, struct kiln_error *err)
{
    size_t count = kiln_st_count(ws->st);
    float *flags = malloc((count + 1) * sizeof *flags);
    if (!flags)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to check %zu tensors", count);
    kt_to_host_f32(ws->scope, ws->flags, flags, count);
    int code = kt_scope_check(ws->scope, err);
    for (size_t i = 0; i < count && !code; i++)
        if (flags[i] > 0)
            code =
                kiln_fail(err, KILN_CORRUPT, "tensor %s holds values that are not finite numbers",
                          kiln_st_at(ws->st, i)->name);
    free(flags);
    return code;
}

int kiln_weights_stream_close(struct kiln_weights_stream *ws, struct kiln_error *err)
{
    kiln_loading_note_device(kt_device_of(ws->scope));
    /* First: a file that changed meanwhile explains all other errors. */
    int code = kiln_st_check(ws->st, err);
    code = code ? code : check_flags(ws, err);
    stream_free(ws);
    return code;
}
