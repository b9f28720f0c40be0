/* read.c - a reader, and the words of a request: the prompt's, marked; the style's, which are a
 * clause of their own; the negative prompt's, all denied. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/router/index.h"
#include "schemas/words/marks.h"

struct kiln_router_reader *kiln_router_reader_new(const struct kiln_router *router)
{
    struct kiln_router_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->router = router;
    reader->candidate_of = calloc(router->count + 1, sizeof *reader->candidate_of);
    reader->candidates = calloc(router->count + 1, sizeof *reader->candidates);
    reader->prompt = malloc(KILN_PROMPT_MAX + 1);
    if (reader->candidate_of && reader->candidates && reader->prompt &&
        kiln_router_meaning_room(reader))
        return reader;
    kiln_router_reader_free(reader);
    return NULL;
}

void kiln_router_reader_free(struct kiln_router_reader *reader)
{
    if (!reader)
        return;
    kiln_route_tokens_release(&reader->tokens);
    free(reader->candidate_of);
    free(reader->candidates);
    free(reader->prompt);
    free(reader->cosines);
    free(reader->products);
    free(reader);
}

int kiln_router_read(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                     struct kiln_error *err)
{
    const size_t len = strnlen(request->prompt, KILN_PROMPT_MAX + 1);
    const char *negative = request->negative_prompt, *style = request->style;
    const size_t negative_len = negative ? strnlen(negative, KILN_PROMPT_MAX + 1) : 0;
    if (len > KILN_PROMPT_MAX || negative_len > KILN_PROMPT_MAX)
        return kiln_fail(err, KILN_BAD_INPUT, "the prompt has over %d bytes", KILN_PROMPT_MAX);
    struct kiln_route_tokens *tokens = &reader->tokens;
    kiln_route_tokens_clear(tokens);
    tokens->keep_clean = reader->router->meaning != NULL;
    int rc = kiln_route_tokens_add(tokens, request->prompt, len, true, err);
    if (!rc && style && *style)
        rc = kiln_route_tokens_add(tokens, style, strlen(style), false, err);
    const size_t wanted = tokens->count;
    tokens->keep_clean = false;
    if (!rc && negative_len > 0)
        rc = kiln_route_tokens_add(tokens, negative, negative_len, false, err);
    if (rc)
        return rc;
    for (size_t i = wanted; i < tokens->count; i++)
        tokens->at[i].mark = KILN_MARK_NEGATED;
    kiln_router_guess(reader);
    kiln_router_find(reader);
    kiln_router_split(reader);
    return 0;
}

int kiln_router_segments(struct kiln_router_reader *reader,
                         const struct kiln_router_request *request,
                         const char *ret[KILN_MEANING_SEGMENTS], size_t *ret_count,
                         struct kiln_error *err)
{
    *ret_count = 0;
    int rc = reader->router->meaning ? kiln_router_read(reader, request, err) : 0;
    for (size_t i = 0; i < reader->segment_count && !rc; i++)
        ret[(*ret_count)++] = reader->segments[i].text;
    return rc;
}
