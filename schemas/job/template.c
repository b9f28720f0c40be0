/* template.c - walks the text; a group's size is counted again where it is needed.
 *
 * A sequence is characters and groups up to a '|', a '}' or the end; a group is '{', alternatives
 * (sequences) between '|', '}'.  combinations(sequence) is the product over its groups,
 * combinations(group) the sum over its alternatives.  Walking twice instead of building a tree
 * keeps this free of memory; nesting is at most KILN_TEMPLATE_DEPTH, so it stays linear enough.
 */
#include "schemas/job/template.h"

#include <string.h>

struct walk {
    const char *start, *end;
    const char *fault; /* what is wrong, at fault_at */
    const char *fault_at;
};

/* Both counters stop at the largest number: what is beyond the limit need not be exact. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

bool kiln_template_is(const char *text, size_t len)
{
    return memchr(text, '{', len) || memchr(text, '}', len);
}

/* Whether at stands on a backslash that makes the next character literal. */
static bool is_escape(const struct walk *walk, const char *at)
{
    return *at == '\\' && at + 1 < walk->end && memchr("{}|\\", at[1], 4);
}

static uint64_t count_sequence(struct walk *walk, const char **at, int depth);

/* *at stands on '{' and ends behind '}'. */
static uint64_t count_group(struct walk *walk, const char **at, int depth,
                            unsigned *ret_alternatives)
{
    const char *open = (*at)++;
    uint64_t total = 0;
    *ret_alternatives = 0;
    if (depth >= KILN_TEMPLATE_DEPTH) {
        walk->fault = "choices are nested too deeply";
        walk->fault_at = open;
        return 0;
    }
    for (;;) {
        total = add(total, count_sequence(walk, at, depth + 1));
        (*ret_alternatives)++;
        if (walk->fault)
            return 0;
        if (*at == walk->end) {
            walk->fault = "a '{' without its '}'";
            walk->fault_at = open;
            return 0;
        }
        if (*(*at)++ == '}')
            return total;
    }
}

/* Ends on the '|' or '}' that belongs to the group around it, or at the end of the text. */
static uint64_t count_sequence(struct walk *walk, const char **at, int depth)
{
    uint64_t total = 1;
    while (*at < walk->end) {
        unsigned alternatives;
        if (is_escape(walk, *at)) {
            *at += 2;
        } else if (**at == '{') {
            total = multiply(total, count_group(walk, at, depth, &alternatives));
            if (walk->fault)
                return 0;
        } else if (depth > 0 && (**at == '|' || **at == '}')) {
            break;
        } else if (**at == '}') {
            walk->fault = "a '}' without its '{'";
            walk->fault_at = *at;
            return 0;
        } else {
            (*at)++;
        }
    }
    return total;
}

int kiln_template_count(const char *text, size_t len, uint64_t max, uint64_t *ret_count,
                        struct kiln_error *err)
{
    struct walk walk = {text, text + len, NULL, NULL};
    const char *at = text;
    uint64_t count = kiln_template_is(text, len) ? count_sequence(&walk, &at, 0) : 1;
    if (walk.fault)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "prompt: %s at byte %zu; write \\{ and \\} for the characters, or set "
                         "\"template\": false",
                         walk.fault, (size_t)(walk.fault_at - text) + 1);
    if (count > max)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "prompt: its choices make %s%llu pictures; the limit is %llu",
                         count == UINT64_MAX ? "more than " : "", (unsigned long long)count,
                         (unsigned long long)max);
    *ret_count = count;
    return 0;
}

static void render_sequence(struct walk *walk, const char **at, int depth, uint64_t which,
                            struct kiln_text *out);

/* which counts through the group's alternatives in order. */
static void render_group(struct walk *walk, const char **at, int depth, uint64_t which,
                         struct kiln_text *out)
{
    unsigned alternatives;
    const char *ahead = *at;
    count_group(walk, &ahead, depth, &alternatives);
    if (alternatives == 1)
        kiln_text_add(out, "{", 1);
    bool chosen = false;
    do {
        (*at)++; /* '{' or '|' */
        const char *alternative = *at;
        uint64_t count = count_sequence(walk, at, depth + 1);
        if (!chosen && which < count) {
            chosen = true;
            render_sequence(walk, &alternative, depth + 1, which, out);
        } else if (!chosen) {
            which -= count;
        }
    } while (**at == '|');
    (*at)++;
    if (alternatives == 1)
        kiln_text_add(out, "}", 1);
}

/* which is divided among the groups from left to right, so that the last one changes fastest. */
static void render_sequence(struct walk *walk, const char **at, int depth, uint64_t which,
                            struct kiln_text *out)
{
    const char *ahead = *at;
    uint64_t left = count_sequence(walk, &ahead, depth); /* combinations from here on */
    const char *end = ahead;
    while (*at < end) {
        unsigned alternatives;
        if (is_escape(walk, *at)) {
            kiln_text_add(out, *at + 1, 1);
            *at += 2;
        } else if (**at == '{') {
            ahead = *at;
            left /= count_group(walk, &ahead, depth, &alternatives);
            render_group(walk, at, depth, which / left, out);
            which %= left;
        } else {
            kiln_text_add(out, (*at)++, 1);
        }
    }
}

void kiln_template_render(const char *text, size_t len, uint64_t which, struct kiln_text *out)
{
    struct walk walk = {text, text + len, NULL, NULL};
    const char *at = text;
    if (kiln_template_is(text, len))
        render_sequence(&walk, &at, 0, which, out);
    else
        kiln_text_add(out, text, len);
}
