/* router.h - which LoRAs a prompt asks for: loras "auto".
 *
 * A snapshot is the registry at one version, immutable and shared by all threads; a reader is the
 * scratch memory of one thread.  The route is a function of the request and the snapshot alone: no
 * clock, no randomness, scores in whole numbers, ties by name.
 *
 *     kiln_lexicon_new(&lexicon, err);
 *     kiln_router_build(loras, count, version, lexicon, &router, err);
 *     reader = kiln_router_reader_new(router);
 *     kiln_router_route(reader, &request, &route, err);
 *
 * For each LoRA (look.c, score.c):
 *     t  an exact trigger stands in the prompt, unquoted and not denied
 *     k  best keyword phrase: (share of its idf that is found)^3; its own and the lexicon's
 *     b  B/(B + 4) of BM25F over name, triggers, keywords, description, examples
 *     n  a phrase of a concept that its own excludes ("photorealistic" for a painting)
 *     p = 1/(1 + exp(-z)),  z = weights . (1, t, k, b, n), fitted by `kiln bench routing --fit`,
 *     plus the bias that ratings of its pictures have taught (learn.h), unless a trigger stands
 * Where words choose nothing, an embedder may, if the snapshot has one (meaning.h).
 * Then the team (team.c): the best one first; the words that spoke for it speak for no other.
 */
#ifndef KILN_ROUTER_H
#define KILN_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/router/lexicon.h"
#include "schemas/error.h"
#include "schemas/limits.h"

#define KILN_ROUTER_LORAS_MAX 20000
#define KILN_ROUTER_TEXTS_MAX 32   /* triggers, keywords ... of one LoRA; more is refused */
#define KILN_ROUTER_TEXT_MAX 120   /* bytes of a trigger or keyword */
#define KILN_ROUTER_PROSE_MAX 2000 /* bytes of an example, or read of a description */
#define KILN_ROUTER_REASON_MAX KILN_ROUTE_MAX /* bytes */
#define KILN_ROUTER_SHOWN 8                   /* candidates that a route explains */
#define KILN_ROUTER_ID 9 /* raised when the same line and version may give another answer */

enum kiln_lora_category {
    KILN_LORA_STYLE,
    KILN_LORA_SUBJECT,
    KILN_LORA_CHARACTER,
    KILN_LORA_EFFECT,
    KILN_LORA_MOTION,
    KILN_LORA_CATEGORIES
};
enum kiln_lora_type { KILN_LORA_IMAGE, KILN_LORA_VIDEO, KILN_LORA_BOTH };
/* Which trigger must stand in the prompt: any of them, the first one, none. */
enum kiln_trigger_mode { KILN_TRIGGER_ANY, KILN_TRIGGER_ONE, KILN_TRIGGER_NEVER };
enum kiln_commercial { KILN_COMMERCIAL_UNKNOWN, KILN_COMMERCIAL_NO, KILN_COMMERCIAL_YES };

struct kiln_texts {
    char **at;
    uint32_t count;
};

struct kiln_router_lora {
    char name[KILN_NAME_MAX + 1];
    char base[KILN_NAME_MAX + 1];    /* "z-image"; "" unknown: fits every pool */
    char variant[KILN_NAME_MAX + 1]; /* "turbo", "base"; "any" and "" fit every pool */
    char tenant[KILN_NAME_MAX + 1];  /* "": everybody's */
    char family[KILN_NAME_MAX + 1];  /* two of one family are never drawn together; "" none */
    enum kiln_lora_category category;
    enum kiln_lora_type type;
    enum kiln_trigger_mode trigger_mode;
    enum kiln_commercial commercial; /* what the licence allows */
    bool enabled;
    struct kiln_texts triggers, positive, negative, examples;
    char *description; /* or NULL */
    char *licence;     /* its name or text; NULL: unknown */
    double scale, min, max;
    int bias; /* of z, thousandths, learnt from ratings (learn.h); 0: none */
};

struct kiln_router;
struct kiln_router_reader;

/* Copies nothing: takes the loras' texts over, also when it fails, and frees the array.
 * KILN_BAD_INPUT names the LoRA.  The lexicon is lent and must live as long. */
int kiln_router_build(struct kiln_router_lora *loras, size_t count, uint64_t version,
                      const struct kiln_lexicon *lexicon, struct kiln_router **ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
void kiln_router_free(struct kiln_router *router);
uint64_t kiln_router_version(const struct kiln_router *router);
size_t kiln_router_count(const struct kiln_router *router);
const struct kiln_router_lora *kiln_router_lora(const struct kiln_router *router, size_t i);
void kiln_router_lora_release(struct kiln_router_lora *lora);

/* For one thread at a time; NULL: no memory. */
struct kiln_router_reader *kiln_router_reader_new(const struct kiln_router *router);
void kiln_router_reader_free(struct kiln_router_reader *reader);

/* Whom a LoRA must suit; empty texts suit all. */
struct kiln_router_pool {
    const char *base, *variant, *tenant;
    const char *licences; /* the setting router_licences: licences with commas between */
    bool video;           /* LoRAs for video, not for pictures */
};

/* z in thousandths; t, k, b and n are 0 .. 1000. */
struct kiln_router_weights {
    int bias, t, k, b, n;
};
extern const struct kiln_router_weights kiln_router_weights; /* the fitted ones */

struct kiln_router_request {
    const char *prompt;          /* as the user wrote it */
    const char *negative_prompt; /* or NULL: bars what it names */
    const char *style;           /* name of the preset, or NULL: one strong word */
    size_t around;               /* bytes of the style's words, which are drawn beside the prompt */
    struct kiln_router_pool pool;
    const struct kiln_router_weights *weights; /* NULL: the fitted ones */
    /* With an embedder: a vector [dims] for each text of kiln_router_segments. */
    const int8_t *const *vectors;
    size_t vector_count;
};

enum kiln_route_why {
    KILN_ROUTE_CHOSEN,
    KILN_ROUTE_WEAK,      /* p too low */
    KILN_ROUTE_BARRED,    /* denied by the prompt or named by the negative prompt */
    KILN_ROUTE_STYLE,     /* a better style is chosen */
    KILN_ROUTE_FAMILY,    /* a better one of its family is */
    KILN_ROUTE_CATEGORY,  /* enough subjects or effects */
    KILN_ROUTE_FULL,      /* three are chosen */
    KILN_ROUTE_NAME_ONLY, /* a character whose name is not in the prompt */
    KILN_ROUTE_EXPLAINED  /* what spoke for it spoke for a better one */
};
const char *kiln_route_why_name(enum kiln_route_why why);

struct kiln_route_candidate {
    uint32_t lora;
    int p;                   /* thousandths */
    int t, k, b, n, c, m, x; /* thousandths */
    enum kiln_route_why why;
    bool by_trigger;  /* what text is: a trigger or a keyword */
    bool by_meaning;  /* the embedder chose it; text is "" */
    const char *text; /* the phrase that spoke most for it, or "" */
};

struct kiln_route {
    struct {
        uint32_t lora;
        double scale;
    } picks[KILN_LORAS_MAX];
    uint32_t count;
    const char
        *prompt; /* as drawn: with the missing triggers; lent until the reader's next route */
    bool trigger_dropped;                    /* a trigger had no room within KILN_PROMPT_MAX */
    bool tags;                               /* the prompt has <lora:...>, which is not obeyed */
    char reason[KILN_ROUTER_REASON_MAX + 1]; /* schemas/route.h */
    struct kiln_route_candidate shown[KILN_ROUTER_SHOWN]; /* chosen ones first, then by p */
    uint32_t shown_count;
};

/* KILN_BAD_INPUT: not UTF-8, or longer than KILN_PROMPT_MAX.  KILN_INTERNAL: the snapshot has an
 * embedder, and the request not the vectors of its segments. */
int kiln_router_route(struct kiln_router_reader *reader, const struct kiln_router_request *request,
                      struct kiln_route *ret, struct kiln_error *err) KILN_MUST_CHECK;

#endif
